// SPDX-License-Identifier: Apache-2.0
// The table of counters. The names are a contract, because dashboards and scripts read them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/device/device.h"
#include "lib/results/outcome.h"

namespace roofbench {

enum class Better { kHigher, kLower, kNeither };
std::string_view Name(Better better);  // "higher", "lower", "neither"

// Inputs for computing counters.
struct CounterContext {
  const Outcome& outcome;
  const Device& device;
  const hardware::Datasheet& reference;
};

struct CounterSpec {
  std::string_view name;  // "<ref>" stands for the prefix of --reference, "<phase>" for the name of a phase
  std::string_view unit;
  Better better;
  double threshold;  // smaller relative changes are irrelevant in practice
  bool noisy;        // varies between runs; otherwise the same work has the same value
  std::string_view doc;
  std::string_view absent;  // when it is omitted; empty: never
  // nullopt: omitted for this case. Empty for rows that stand for several counters or that a case supplies itself.
  std::optional<double> (*value)(const CounterContext&);
};

// Sorted by precedence: if two rows match a name ("<…>" matches a word), the first applies.
std::span<const CounterSpec> CounterTable();

// All counters of a measured outcome, finite values only, in table order.
std::vector<CounterValue> ComputeCounters(const CounterContext& context);

// The text of --explain_counters.
std::string ExplainCounters();

}  // namespace roofbench
