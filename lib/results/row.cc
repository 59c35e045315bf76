// SPDX-License-Identifier: Apache-2.0
#include "lib/results/row.h"

#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"
#include "lib/results/counters.h"

namespace roofbench {
namespace {

double Variation(std::span<const double> values) { return timing::StandardDeviation(values) / timing::Mean(values); }

constexpr std::pair<const char*, double (*)(std::span<const double>)> kAggregates[] = {
    {"mean", timing::Mean}, {"median", timing::Median}, {"stddev", timing::StandardDeviation}, {"cv", Variation}};

// JSON has no infinities or NaNs.
double Finite(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace

std::string Row::Name() const { return aggregate.empty() ? of.name : absl::StrCat(of.name, "_", aggregate); }

AxisValues Row::Axes() const {
  AxisValues axes = of.axes;
  std::erase_if(axes, [&](const auto& axis) { return counters.contains(axis.first); });
  return axes;
}

std::vector<Row> RepetitionRows(const CaseKey& of, std::size_t index, const std::deque<Outcome>& outcomes) {
  std::vector<Row> rows;
  for (const Outcome& outcome : outcomes) {
    if (outcome.verdict == Verdict::kInterrupted) continue;
    Row row{.of = of, .index = index, .outcome = &outcome, .repetitions = outcomes.size()};
    if (outcome.verdict == Verdict::kMeasured) {
      row.seconds = Finite(outcome.summary.median);
      row.cpu_seconds = Finite(outcome.samples.cpu_seconds_per_step);
      row.label = std::string(Name(outcome.samples.stop));
      for (const auto& [name, value] : outcome.counters) {
        if (IsFigure(value)) row.counters[name] = value;
      }
    } else {
      // The reason may contain untrusted text.
      row.error = absl::StrCat(View(Name(outcome.verdict)), ": ", Printable(outcome.reason));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> AggregateRows(const std::vector<Row>& repetitions) {
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  std::map<std::string, std::vector<double>> counters;
  std::string label;
  for (const Row& row : repetitions) {
    if (!row.error.empty()) continue;
    label = seconds.empty() || label == row.label ? row.label : "";
    seconds.push_back(row.seconds);
    cpu_seconds.push_back(row.cpu_seconds);
    for (const auto& [name, value] : row.counters) counters[name].push_back(value);
  }
  std::vector<Row> rows;
  if (seconds.size() < 2) return rows;
  for (const auto& [name, aggregate] : kAggregates) {
    Row row{.of = repetitions.front().of,
            .index = repetitions.front().index,
            .aggregate = name,
            .repetitions = repetitions.size(),
            .seconds = Finite(aggregate(seconds)),
            .cpu_seconds = Finite(aggregate(cpu_seconds)),
            .label = label};
    for (const auto& [counter, values] : counters) {
      if (const double value = aggregate(values); IsFigure(value)) row.counters[counter] = value;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

TimeUnit TimeUnitNamed(const std::string& name) {
  for (const TimeUnit& unit : {TimeUnit{"ns", 1e9}, TimeUnit{"us", 1e6}, TimeUnit{"ms", 1e3}}) {
    if (unit.name == name) return unit;
  }
  return {"s", 1};
}

nlohmann::ordered_json RowJson(const Row& row, const TimeUnit& unit) {
  const bool is_aggregate = !row.aggregate.empty();
  nlohmann::ordered_json json = {{"name", row.Name()}, {"family_index", row.index}, {"per_family_instance_index", 0}};
  for (const auto& [axis, value] : row.Axes()) json[axis] = AxisJson(value);
  json["run_name"] = row.of.name;
  json["run_type"] = is_aggregate ? "aggregate" : "iteration";
  json["repetitions"] = row.repetitions;
  if (!is_aggregate) json["repetition_index"] = row.outcome->repetition;
  json["threads"] = 1;
  if (is_aggregate) {
    json["aggregate_name"] = row.aggregate;
    json["aggregate_unit"] = row.IsRatio() ? "percentage" : "time";
  }
  if (!row.error.empty()) {
    json["error_occurred"] = true;
    json["error_message"] = row.error;
  }
  const double scale = row.IsRatio() ? 1 : unit.per_second;
  json["iterations"] = is_aggregate ? row.repetitions : 1;
  json["real_time"] = row.seconds * scale;
  json["cpu_time"] = row.cpu_seconds * scale;
  json["time_unit"] = unit.name;
  for (const auto& [counter, value] : row.counters) json[counter] = value;
  if (!row.label.empty()) json["label"] = row.label;
  return json;
}

}  // namespace roofbench
