// SPDX-License-Identifier: Apache-2.0
// Measurements as counters, rows and lines of a journal.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/files.h"
#include "lib/base/text.h"
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

// The records of an earlier process of the run: the facts of the machine, the lines of its cases, and remarks.
nb::tuple OpenJournal(Journal& journal, const std::string& path, const nb::dict& run, const nb::dict& context,
                      const std::string& contract, bool resume) {
  Recorded recorded;
  recorded.context = AxesOf(context);
  absl::Status status = absl::NotFoundError(path);
  if (resume) {
    absl::StatusOr<Recorded> found = journal.Resume(path, AxesOf(run));
    status = found.status();
    if (found.ok()) recorded = *std::move(found);
  }
  if (absl::IsNotFound(status)) status = journal.Create(path, AxesOf(run), AxesOf(context), contract);
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
      .def("open", OpenJournal, "path"_a, "run"_a, "context"_a, "contract"_a, nb::kw_only(), "resume"_a,
           nb::sig("def open(self, path: str, run: dict, context: dict, contract: str, *, resume: bool)"
                   " -> tuple[dict[str, str], list[str], list[str]]"),
           "Returns the context, lines and notes of earlier processes of this run. ValueError: why it cannot be opened")
      .def(
          "append",
          [](Journal& journal, const std::string& line) {
            return std::string(journal.Append(OutcomeOf(line)).message());
          },
          "line"_a, "Why it could not be written, or \"\"");

  core.def(
      "write_file",
      [](const std::string& path, const std::string& text) { return std::string(WriteFile(path, text).message()); },
      "path"_a, "text"_a, "The whole file or nothing of it. Why it could not be written, or \"\"");
  core.def("unmeasured_line", UnmeasuredLine, "name"_a, "axes"_a, "verdict"_a, "reason"_a, nb::kw_only(),
           "repetition"_a = 0, "The line of a case that was not measured; verdict: skipped, failed, interrupted");
  core.def("rows", RowsOf, "lines"_a, "axes"_a, nb::kw_only(), "family_index"_a = 0,
           "The rows of one case from the lines of its repetitions, with their aggregates if there are two");
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
  core.def("human_time", HumanTime, "seconds"_a);
  core.def("human_rate", HumanRate, "per_second"_a, "unit"_a);
}

}  // namespace roofbench::python
