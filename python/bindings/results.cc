// SPDX-License-Identifier: Apache-2.0
// Measurements as counters, rows and lines of a journal.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/text.h"
#include "lib/hardware/datasheet.h"
#include "lib/results/counters.h"
#include "lib/results/journal_line.h"
#include "lib/results/row.h"
#include "lib/timing/statistics.h"
#include "python/bindings/bindings.h"
#include "python/bindings/measurement.h"

namespace roofbench::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using Figures = std::map<std::string, double>;

constexpr char kReference[] = "a100-sxm4-40gb";

AxisValues AxesOf(const nb::dict& axes) {
  AxisValues values;
  for (const auto& [axis, value] : axes) {
    values.emplace_back(nb::cast<std::string>(axis), nb::cast<std::string>(nb::str(value)));
  }
  return values;
}

std::vector<CounterValue> CountersOf(const Outcome& outcome, const std::string& reference) {
  const hardware::Datasheet* const sheet = hardware::FindDatasheet(reference);
  if (sheet == nullptr) {
    std::vector<std::string_view> names;
    for (const hardware::Datasheet& one : hardware::Datasheets()) names.push_back(one.name);
    RefuseName("reference", reference, names);
  }
  return ComputeCounters({.outcome = outcome, .reference = *sheet});
}

// The measured outcome of a named case.
Outcome Named(const Measurement& measurement, const std::string& name, const nb::dict& axes, int repetition,
              const std::string& reference, const Figures& figures) {
  Outcome outcome = measurement.outcome;
  outcome.name = name;
  outcome.axes = AxesOf(axes);
  outcome.repetition = repetition;
  outcome.figures.assign(figures.begin(), figures.end());
  outcome.counters = CountersOf(outcome, reference);
  return outcome;
}

std::string UnmeasuredLine(const std::string& name, const nb::dict& axes, const std::string& verdict,
                           const std::string& reason, int repetition) {
  constexpr std::array kVerdicts = {Verdict::kSkipped, Verdict::kFailed, Verdict::kInterrupted};
  const auto found = std::ranges::find(kVerdicts, verdict, [](Verdict one) { return Name(one); });
  if (found == kVerdicts.end()) RefuseName("verdict", verdict, std::array{"skipped", "failed", "interrupted"});
  return JournalLine(
      {.name = name, .axes = AxesOf(axes), .repetition = repetition, .verdict = *found, .reason = reason});
}

std::vector<std::string> RowsOf(const std::deque<Outcome>& outcomes, const nb::dict& axes, std::size_t index) {
  if (outcomes.empty()) return {};
  const std::string& name = outcomes.front().name;
  const CaseKey key = {.family = name.substr(0, name.find('/')), .name = name, .axes = AxesOf(axes)};
  const std::vector<Row> repetitions = RepetitionRows(key, index, outcomes);
  std::vector<std::string> texts;
  for (const std::vector<Row>& rows : {repetitions, AggregateRows(repetitions)}) {
    for (const Row& row : rows) texts.push_back(RowJson(row, TimeUnit()).dump());
  }
  return texts;
}

std::vector<std::string> RowsOfLines(const std::vector<std::string>& lines, const nb::dict& axes, std::size_t index) {
  std::deque<Outcome> outcomes;
  for (const std::string& line : lines) {
    const absl::StatusOr<Outcome> outcome = ParseJournalLine(line);
    if (!outcome.ok()) {
      throw std::invalid_argument("not a line of a journal: " + std::string(outcome.status().message()));
    }
    outcomes.push_back(*outcome);
  }
  return RowsOf(outcomes, axes, index);
}

// A field of the samples, or of the outcome.
template <auto kField>
auto FieldOfSamples(const Measurement& measurement) {
  return measurement.outcome.samples.*kField;
}
template <auto kField>
auto FieldOf(const Measurement& measurement) {
  return measurement.outcome.*kField;
}

}  // namespace

void BindResults(nb::module_& core) {
  using hardware::MeasuredConditions;
  using timing::Chunk;
  using timing::Samples;
  nb::class_<MeasuredConditions>(core, "Conditions")
      .def_ro("stolen_share", &MeasuredConditions::stolen_share)
      .def_ro("others_share", &MeasuredConditions::others_share)
      .def_ro("throttled", &MeasuredConditions::throttled);
  nb::class_<Chunk>(core, "Chunk")
      .def_ro("first_sample", &Chunk::first_sample)
      .def_ro("samples", &Chunk::samples)
      .def_ro("median_seconds", &Chunk::median_seconds)
      .def_ro("roof_rate", &Chunk::roof_rate);

  nb::class_<Measurement>(core, "Measurement")
      .def_prop_ro("seconds", FieldOfSamples<&Samples::seconds>)
      .def_prop_ro("phase_seconds", FieldOfSamples<&Samples::phase_seconds>)
      .def_prop_ro("chunks", FieldOfSamples<&Samples::chunks>)
      .def_prop_ro("steps_per_sample", FieldOfSamples<&Samples::steps_per_sample>)
      .def_prop_ro("warmup_steps", FieldOfSamples<&Samples::warmup_steps>)
      .def_prop_ro("first_step_seconds", FieldOfSamples<&Samples::first_step_seconds>)
      .def_prop_ro("cpu_seconds_per_step", FieldOfSamples<&Samples::cpu_seconds_per_step>)
      .def_prop_ro("stop", [](const Measurement& measurement) { return Name(measurement.outcome.samples.stop); })
      .def_prop_ro("summary", FieldOf<&Outcome::summary>)
      .def_prop_ro("conditions", FieldOf<&Outcome::conditions>)
      .def_prop_ro("phases", FieldOf<&Outcome::phases>)
      .def_prop_ro("cost", FieldOf<&Outcome::cost>)
      .def_prop_ro("roof_name", FieldOf<&Outcome::roof_name>)
      .def_prop_ro("roof_ratios", FieldOf<&Outcome::roof_ratios>)
      .def_prop_ro("roof",
                   [](const Measurement& measurement) -> std::optional<double> {
                     const Outcome& outcome = measurement.outcome;
                     if (outcome.disturbed || outcome.roof_ratios.empty()) return std::nullopt;
                     return timing::Median(outcome.roof_ratios);
                   })
      .def_prop_ro("disturbed", FieldOf<&Outcome::disturbed>)
      .def_prop_ro("noise", FieldOf<&Outcome::noise>)
      .def_ro("impossible", &Measurement::impossible)
      .def_ro("last_result", &Measurement::last_result)
      .def_ro("last_call", &Measurement::last_call)
      .def(
          "counters",
          [](const Measurement& measurement, const std::string& reference) {
            nb::dict counters;
            for (const auto& [name, value] : CountersOf(measurement.outcome, reference)) {
              counters[nb::str(name.c_str())] = value;
            }
            return counters;
          },
          nb::kw_only(), "reference"_a = kReference)
      .def(
          "journal_line",
          [](const Measurement& measurement, const std::string& name, const nb::dict& axes, int repetition,
             const std::string& reference, const Figures& figures) {
            return JournalLine(Named(measurement, name, axes, repetition, reference, figures));
          },
          "name"_a, "axes"_a, nb::kw_only(), "repetition"_a = 0, "reference"_a = kReference, "figures"_a = Figures())
      .def(
          "row",
          [](const Measurement& measurement, const std::string& name, const nb::dict& axes, std::size_t family_index,
             int repetition, const std::string& reference, const Figures& figures) {
            return RowsOf({Named(measurement, name, axes, repetition, reference, figures)}, axes, family_index).at(0);
          },
          "name"_a, "axes"_a, nb::kw_only(), "family_index"_a = 0, "repetition"_a = 0, "reference"_a = kReference,
          "figures"_a = Figures());

  core.def("unmeasured_line", UnmeasuredLine, "name"_a, "axes"_a, "verdict"_a, "reason"_a, nb::kw_only(),
           "repetition"_a = 0);
  core.def("rows", RowsOfLines, "lines"_a, "axes"_a, nb::kw_only(), "family_index"_a = 0);
  core.def("contract", [] { return ContractOf(nlohmann::ordered_json::array()).dump(); });
  core.def("explain_counters", ExplainCounters);
  core.def("human_time", HumanTime, "seconds"_a);
  core.def("human_bytes", HumanBytes, "size"_a);
  core.def("human_rate", HumanRate, "per_second"_a, "unit"_a);
}

}  // namespace roofbench::python
