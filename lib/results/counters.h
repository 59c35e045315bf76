// SPDX-License-Identifier: Apache-2.0
// The table of counters. The names never change, because dashboards and scripts read them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/hardware/datasheet.h"
#include "lib/results/outcome.h"

namespace roofbench {

enum class Better { kHigher, kLower, kNeither };
std::string_view Name(Better better);  // "higher", "lower", "neither"

// Inputs for computing counters.
struct CounterContext {
  const Outcome& outcome;
  const hardware::Datasheet* datasheet = nullptr;  // of the device; nullptr: the table does not know it
  bool enqueues_ahead = false;                     // as Device::EnqueuesAhead
  const hardware::Datasheet& reference;
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which the table is read
struct CounterSpec {
  std::string_view name;  // "<ref>" stands for the prefix of --reference, "<phase>" for the name of a phase
  std::string_view unit;
  Better better;
  double threshold;  // smaller relative changes are irrelevant in practice
  bool noisy;        // varies between runs; otherwise the same work has the same value
  std::string_view doc;
  std::string_view absent = {};  // when it is omitted; empty: never
  // nullopt: omitted for this case. Empty for rows that stand for several counters or that a case supplies itself.
  std::optional<double> (*value)(const CounterContext&) = nullptr;
  // What a case is run for, beyond its time: in the line of the console and the default columns of tables.
  bool headline = false;
};

// Sorted by precedence: if two rows match a name ("<…>" matches a word), the first applies.
std::span<const CounterSpec> CounterTable();

// The share of the processors' time that other programs and the hypervisor took.
double TakenShare(const hardware::MeasuredConditions& conditions);

// Whether that is a share that matters.
bool WasBesideOthers(const hardware::MeasuredConditions& conditions);

// Disturbances of a measured case: "ci" (wide interval), "drift" (chunks differ), "others" (other programs used the
// processors) or "stolen" (the hypervisor did).
std::vector<std::string> NoiseOf(const Outcome& outcome);

// Those disturbances, with their meaning for users.
std::vector<std::pair<std::string, std::string>> NoiseReasons();

// Whether a result may contain the value. Beyond 1e100, in either direction, readers could not square it.
bool IsFigure(double value);

// All counters of a measured outcome that are figures, in table order.
std::vector<CounterValue> ComputeCounters(const CounterContext& context);

// The text of --explain_counters.
std::string ExplainCounters();

// {"schema": "roofbench-contract-1", "version": 1, "families": families, "counters": […]}: everything that
// `tools/report` knows about the names in a result.
nlohmann::ordered_json ContractOf(nlohmann::ordered_json families);

}  // namespace roofbench
