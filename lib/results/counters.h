// SPDX-License-Identifier: Apache-2.0
// The table of counters: a contract, since dashboards and scripts read these names.
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

// What a counter is computed from.
struct CounterContext {
  const Outcome& outcome;
  const Device& device;
  const hardware::Datasheet& reference;
};

struct CounterSpec {
  std::string_view name;  // "<ref>" stands for the prefix of --reference, "<phase>" for the name of a phase
  std::string_view unit;
  Better better;
  double threshold;  // a smaller relative change means nothing in practice
  bool noisy;        // scatters from run to run; else the same work gives the same figure
  std::string_view doc;
  std::string_view absent;  // when it is left out; empty: always there
  // nullopt: left out of this case. Empty for the rows that stand for several counters or that a case supplies itself.
  std::optional<double> (*value)(const CounterContext&);
};

// Of two rows that stand for a name, "<…>" for a word of it, the first counts.
std::span<const CounterSpec> CounterTable();

// All counters of a measured outcome, finite values only, sorted as the table.
std::vector<CounterValue> ComputeCounters(const CounterContext& context);

// The text of --explain_counters.
std::string ExplainCounters();

}  // namespace roofbench
