// SPDX-License-Identifier: Apache-2.0
// Measurements as counters and lines of a record, a journal.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/files.h"
#include "lib/base/text.h"
#include "lib/results/counters.h"
#include "lib/results/figure_columns.h"
#include "lib/results/journal.h"
#include "lib/results/journal_line.h"
#include "lib/results/start_facts.h"
#include "lib/timing/series.h"
#include "lib/timing/statistics.h"
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

std::string UnmeasuredLine(const std::string& name, const nb::dict& axes, const std::string& verdict,
                           const std::string& reason, int repetition) {
  constexpr std::array kVerdicts = {Verdict::kSkipped, Verdict::kFailed, Verdict::kInterrupted};
  return JournalLine({.name = name,
                      .axes = AxesOf(axes),
                      .repetition = repetition,
                      .verdict = RowNamed("verdict", verdict, kVerdicts, [](Verdict one) { return Name(one); }),
                      .reason = reason});
}

Outcome OutcomeOf(const std::string& line) {
  absl::StatusOr<Outcome> outcome = ParseJournalLine(line);
  if (outcome.ok()) return *std::move(outcome);
  throw std::invalid_argument("not a line of a journal: " + std::string(outcome.status().message()));
}

// The records of an earlier process of the run: the facts of the machine, the lines of its cases, and remarks.
nb::tuple OpenJournal(Journal& journal, const std::string& path, const nb::dict& run, const nb::dict& context,
                      const std::string& contract, std::size_t cases, const std::vector<std::string>& arguments,
                      bool resume) {
  Recorded recorded;
  recorded.context = AxesOf(context);
  absl::Status status = absl::NotFoundError(path);
  if (resume) {
    absl::StatusOr<Recorded> found = journal.Resume(path, AxesOf(run));
    status = found.status();
    if (found.ok()) {
      recorded = *std::move(found);
    } else if (absl::IsNotFound(status)) {
      recorded.notes.emplace_back(status.message());
    }
  }
  if (absl::IsNotFound(status)) {
    status = journal.Create(path, {AxesOf(run), AxesOf(context), contract, cases, arguments});
  }
  if (!status.ok()) throw std::invalid_argument(std::string(status.message()));
  std::vector<std::string> lines;
  for (const Outcome& outcome : recorded.outcomes) lines.push_back(JournalLine(outcome));
  return nb::make_tuple(std::map<std::string, std::string>(recorded.context.begin(), recorded.context.end()), lines,
                        recorded.notes);
}

}  // namespace

void BindResults(nb::module_& core) {
  nb::class_<Journal>(core, "Journal", "That of a run: a line for each finished case, given to the system at once")
      .def(nb::init<>())
      .def("open", OpenJournal, "path"_a, "run"_a, "context"_a, "contract"_a, nb::kw_only(), "cases"_a, "arguments"_a,
           "resume"_a,
           nb::sig("def open(self, path: str, run: dict, context: dict, contract: str, *, cases: int,"
                   " arguments: list[str], resume: bool) -> tuple[dict[str, str], list[str], list[str]]"),
           "Returns the context, lines and notes of earlier processes of this run. ValueError: why it cannot be opened")
      .def(
          "append",
          [](Journal& journal, const std::string& line) {
            OutcomeOf(line);  // throws for any other text
            return std::string(journal.AppendLine(line).message());
          },
          "line"_a, "Why it could not be written, or \"\"");

  core.def(
      "write_file",
      [](const std::string& path, const std::string& text) { return std::string(WriteFile(path, text).message()); },
      "path"_a, "text"_a, "The whole file or nothing of it. Why it could not be written, or \"\"");
  core.def("unmeasured_line", UnmeasuredLine, "name"_a, "axes"_a, "verdict"_a, "reason"_a, nb::kw_only(),
           "repetition"_a = 0, "The line of a case that was not measured; verdict: skipped, failed, interrupted");
  core.def(
      "record_header",
      [](const nb::dict& context, const std::string& contract) {
        return JournalHeader({.context = AxesOf(context), .contract = contract});
      },
      "context"_a, "contract"_a, "The first line of a record that no run continues");
  core.def(
      "start_facts",
      [] {
        const RunFacts facts = StartFacts();
        return std::map<std::string, std::string>(facts.begin(), facts.end());
      },
      "When and where a run began, for the header of its journal");
  core.def(
      "contract", [] { return ContractOf(nlohmann::ordered_json::array()).dump(); },
      "roofbench --describe=json without families");
  core.def(
      "median_interval",
      [](const std::vector<double>& samples) {
        const timing::Interval interval = timing::SeriesMedianInterval(samples);
        return std::pair(interval.low, interval.high);
      },
      "samples"_a, "Of the median at 95 %");
  core.attr("fewest_for_interval") = timing::kFewestForInterval;
  core.def(
      "noise_reasons",
      [] {
        nb::dict reasons;
        for (const auto& [reason, meaning] : NoiseReasons()) reasons[nb::str(reason.c_str())] = meaning.c_str();
        return reasons;
      },
      nb::sig("def noise_reasons() -> dict[str, str]"), "What makes a result noisy, with its meaning");
  core.def(
      "figure_widths",
      [] {
        nb::dict widths;
        for (const FigureColumn& column : kFigureColumns) widths[column.name.data()] = column.width;
        return widths;
      },
      nb::sig("def figure_widths() -> dict[str, int]"), "The columns of figures in the program's table");
  core.def("human_time", HumanTime, "seconds"_a);
  core.def("human_share", HumanShare, "fraction"_a);
  core.def("human_half_width", HumanHalfWidth, "fraction"_a);
  core.def("human_rate", HumanRate, "per_second"_a, "unit"_a);
}

}  // namespace roofbench::python
