// SPDX-License-Identifier: Apache-2.0
// Measurements as counters, rows and lines of a journal.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "lib/base/files.h"
#include "lib/base/text.h"
#include "lib/hardware/datasheet.h"
#include "lib/results/counters.h"
#include "lib/results/journal.h"
#include "lib/results/journal_line.h"
#include "lib/results/row.h"
#include "lib/timing/series.h"
#include "python/bindings/bindings.h"

namespace roofbench::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

AxisValues AxesOf(const nb::dict& axes) {
  AxisValues values;
  for (const auto& [axis, value] : axes) {
    values.emplace_back(nb::cast<std::string>(axis), nb::cast<std::string>(nb::str(value)));
  }
  return values;
}

std::vector<CounterValue> CountersOf(const Outcome& outcome) {
  return ComputeCounters({.outcome = outcome, .reference = *hardware::FindDatasheet("a100-sxm4-40gb")});
}

std::string MeasuredLine(const Measurement& measurement, const std::string& name, const nb::dict& axes, int repetition,
                         const std::string& failure) {
  Outcome outcome = measurement.outcome;
  outcome.name = name;
  outcome.axes = AxesOf(axes);
  outcome.repetition = repetition;
  outcome.counters = CountersOf(outcome);
  outcome.verdict = failure.empty() ? Verdict::kMeasured : Verdict::kFailed;
  outcome.reason = failure;
  return JournalLine(outcome);
}

std::string UnmeasuredLine(const std::string& name, const nb::dict& axes, const std::string& verdict,
                           const std::string& reason, int repetition) {
  constexpr std::array kVerdicts = {Verdict::kSkipped, Verdict::kFailed, Verdict::kInterrupted};
  const auto found = std::ranges::find(kVerdicts, verdict, [](Verdict one) { return Name(one); });
  if (found == kVerdicts.end()) RefuseName("verdict", verdict, std::array{"skipped", "failed", "interrupted"});
  return JournalLine(
      {.name = name, .axes = AxesOf(axes), .repetition = repetition, .verdict = *found, .reason = reason});
}

Outcome OutcomeOf(const std::string& line) {
  absl::StatusOr<Outcome> outcome = ParseJournalLine(line);
  if (outcome.ok()) return *std::move(outcome);
  throw std::invalid_argument("not a line of a journal: " + std::string(outcome.status().message()));
}

std::vector<std::string> RowsOf(const std::vector<std::string>& lines, const nb::dict& axes, std::size_t index) {
  std::deque<Outcome> outcomes;
  for (const std::string& line : lines) outcomes.push_back(OutcomeOf(line));
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

// The journal of a run, and what an earlier process of the run wrote into it.
struct RunJournal {
  Journal file = Journal();
  Recorded recorded = {};
};

std::unique_ptr<RunJournal> OpenJournal(const std::string& path, const nb::dict& run, const nb::dict& context,
                                        const std::string& contract, bool resume) {
  auto journal = std::make_unique<RunJournal>();
  journal->recorded.context = AxesOf(context);
  absl::Status status = absl::NotFoundError(path);
  if (resume) {
    absl::StatusOr<Recorded> recorded = journal->file.Resume(path, AxesOf(run));
    status = recorded.status();
    if (recorded.ok()) journal->recorded = *std::move(recorded);
  }
  if (absl::IsNotFound(status)) status = journal->file.Create(path, AxesOf(run), AxesOf(context), contract);
  if (!status.ok()) throw std::invalid_argument(std::string(status.message()));
  return journal;
}

// Shows the references of a measurement to the garbage collector. They may lead back to it: an exception has the frames
// of its callers, whose variables are the measurement and the machine.
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Measurement& measurement = *nb::inst_ptr<Measurement>(self);
  Py_VISIT(measurement.raised.ptr());
  Py_VISIT(measurement.last_result.ptr());
  return 0;
}

int Clear(PyObject* self) {
  Measurement& measurement = *nb::inst_ptr<Measurement>(self);
  const nb::object raised = std::exchange(measurement.raised, nb::none());
  const nb::object last_result = std::exchange(measurement.last_result, nb::none());
  return 0;
}

PyType_Slot kCollected[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(Traverse)}, {Py_tp_clear, reinterpret_cast<void*>(Clear)}, {0, nullptr}};

}  // namespace

void BindResults(nb::module_& core) {
  nb::class_<Measurement>(core, "Measurement", nb::type_slots(kCollected))
      .def_prop_ro("seconds", [](const Measurement& measurement) { return measurement.outcome.samples.seconds; })
      .def_prop_ro("median", [](const Measurement& measurement) { return measurement.outcome.summary.median; })
      .def_prop_ro("interval",
                   [](const Measurement& measurement) {
                     const timing::Interval interval =
                         timing::SeriesMedianInterval(measurement.outcome.samples.seconds);
                     return std::pair(interval.low, interval.high);
                   })
      .def_prop_ro(
          "processor_seconds",
          [](const Measurement& measurement) { return measurement.outcome.samples.cpu_seconds_per_step; },
          "Of one call, all threads together")
      .def_prop_ro("roof_name", [](const Measurement& measurement) { return measurement.outcome.roof_name; })
      .def_prop_ro("noise", [](const Measurement& measurement) { return measurement.outcome.noise; })
      .def_ro("impossible", &Measurement::impossible, "Why the call cannot have done its work, or \"\"")
      .def_ro("raised", &Measurement::raised, nb::for_getter(nb::sig("def raised(self, /) -> Exception | None")),
              "What the function raised after the first chunk of samples; all finished chunks are here")
      .def_ro("last_result", &Measurement::last_result, "What the last timed call returned")
      .def_ro("page_faults", &Measurement::page_faults, "Of a call, with what precedes it")
      .def(
          "counters",
          [](const Measurement& measurement) {
            nb::dict counters;
            for (const auto& [name, value] : CountersOf(measurement.outcome)) counters[nb::str(name.c_str())] = value;
            return counters;
          },
          nb::sig("def counters(self) -> dict[str, float]"))
      .def("journal_line", MeasuredLine, "name"_a, "axes"_a, nb::kw_only(), "repetition"_a = 0, "failure"_a = "",
           "A line of the journal; with a failure, that of a failed case with the samples before it");

  nb::class_<RunJournal>(core, "Journal", "That of a run: a line for each finished case, given to the system at once")
      .def(nb::new_(&OpenJournal), "path"_a, "run"_a, "context"_a, "contract"_a, nb::kw_only(), "resume"_a)
      .def_prop_ro("context",
                   [](const RunJournal& journal) {
                     const RunFacts& facts = journal.recorded.context;
                     return std::map<std::string, std::string>(facts.begin(), facts.end());
                   })
      .def_prop_ro(
          "lines",
          [](const RunJournal& journal) {
            std::vector<std::string> lines;
            for (const Outcome& outcome : journal.recorded.outcomes) lines.push_back(JournalLine(outcome));
            return lines;
          },
          "Of earlier processes of this run")
      .def_prop_ro("notes", [](const RunJournal& journal) { return journal.recorded.notes; })
      .def(
          "append",
          [](RunJournal& journal, const std::string& line) {
            return std::string(journal.file.Append(OutcomeOf(line)).message());
          },
          "line"_a, "Why it could not be written, or \"\"");

  core.def(
      "write_file",
      [](const std::string& path, const std::string& text) {
        const absl::Status status = WriteFile(path, text);
        if (status.ok()) return;
        PyErr_SetString(PyExc_OSError, std::string(status.message()).c_str());
        throw nb::python_error();
      },
      "path"_a, "text"_a, "The whole file or nothing of it; raises OSError");
  core.def("unmeasured_line", UnmeasuredLine, "name"_a, "axes"_a, "verdict"_a, "reason"_a, nb::kw_only(),
           "repetition"_a = 0, "The line of a case that was not measured; verdict: skipped, failed, interrupted");
  core.def("rows", RowsOf, "lines"_a, "axes"_a, nb::kw_only(), "family_index"_a = 0,
           "The rows of one case from the lines of its repetitions, with their aggregates if there are two");
  core.def(
      "contract", [] { return ContractOf(nlohmann::ordered_json::array()).dump(); },
      "roofbench --describe=json without families");
  core.def("human_time", HumanTime, "seconds"_a);
  core.def("human_rate", HumanRate, "per_second"_a, "unit"_a);
}

}  // namespace roofbench::python
