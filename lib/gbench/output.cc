// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/output.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

std::unique_ptr<RowWriter> MakeWriter(const std::string& format, const Options& options, std::ostream& out) {
  const TimeUnit unit = TimeUnitNamed(options.time_unit);
  if (format == "json") return std::make_unique<JsonRows>(out, unit);
  return std::make_unique<CsvTable>(out, unit);
}

}  // namespace

std::string ComparablePath(const std::string& path) {
  return absl::StrCat(std::string(absl::StripSuffix(path, ".json")), ".comparable.json");
}

Output::Output(const Session& session, const Options& options, SharedState& state)
    : session_(session), options_(options), state_(state) {
  for (std::size_t i = 0; i < session.plan().size(); ++i) shown_before_.push_back(state.shown(i));
  if (options.format == "console") {
    console_ = std::make_unique<ConsoleTable>(std::cout, session.reference(), WantsColor(options.color),
                                              TerminalWidth(STDOUT_FILENO));
  } else {
    sinks_.push_back({.writer = MakeWriter(options.format, options, whole_)});
  }
}

absl::Status Output::Open() {
  if (!options_.tokens_out.empty()) {
    texts_ = std::make_unique<AtomicFile>();
    if (absl::Status status = texts_->Open(options_.tokens_out); !status.ok()) return status;
  }
  if (options_.out.empty()) return absl::OkStatus();
  if (absl::Status status = AddFile(options_.out, /*errors=*/true); !status.ok()) return status;
  if (options_.out_format != "json" || !IsReplaceable(options_.out)) return absl::OkStatus();
  return AddFile(ComparablePath(options_.out), /*errors=*/false);
}

absl::Status Output::AddFile(const std::string& path, bool errors) {
  auto file = std::make_unique<AtomicFile>();
  if (absl::Status status = file->Open(path); !status.ok()) return status;
  std::unique_ptr<RowWriter> writer = MakeWriter(options_.out_format, options_, file->stream());
  sinks_.push_back({.writer = std::move(writer), .file = std::move(file), .errors = errors});
  return absl::OkStatus();
}

bool Output::ReportContext(const Context& context) {
  for (const Sink& sink : sinks_) sink.writer->Begin(context);
  return true;
}

void Output::ReportRuns(const std::vector<Run>& runs) {
  // Each case is registered as a separate family, in the order of the plan. The library's aggregates are ignored.
  if (runs.empty() || runs.front().run_type == Run::RT_Aggregate) return;
  const auto index = static_cast<std::size_t>(runs.front().family_index);
  const std::vector<Row> repetitions = RepetitionRows(session_.plan().at(index), index, session_.OutcomesOf(index));
  const std::vector<Row> aggregates = AggregateRows(repetitions);
  for (const std::vector<Row>* rows : {&repetitions, &aggregates}) {
    const bool left_out = rows == &repetitions && !aggregates.empty();
    if (rows->empty() || (left_out && options_.aggregates_only)) continue;
    const bool is_displayed = !left_out || !options_.display_aggregates_only;
    if (is_displayed) Show(*rows);
    std::vector<Row> results;
    std::ranges::copy_if(*rows, std::back_inserter(results), [](const Row& row) { return row.error.empty(); });
    for (const Sink& sink : sinks_) {
      if (is_displayed || sink.file != nullptr) sink.writer->Add(sink.errors ? *rows : results);
    }
  }
}

void Output::Show(const std::vector<Row>& rows) {
  if (console_ == nullptr) return;
  const std::size_t index = rows.front().index;
  if (shown_before_.at(index)) return console_->ContinueAfter(rows.front());
  console_->Add(rows);
  state_.SetShown(index);
}

absl::Status Output::WriteTexts() {
  std::map<std::string, std::string> lines;
  for (std::size_t index = 0; index < session_.plan().size(); ++index) {
    const std::deque<Outcome>& outcomes = session_.OutcomesOf(index);
    if (!outcomes.empty() && !outcomes.back().text.empty()) lines[outcomes.back().name] = outcomes.back().text;
  }
  for (const auto& [name, text] : lines) {
    for (const auto& line : absl::StrSplit(text, '\n')) {
      texts_->stream() << name;
      for (const auto& column : absl::StrSplit(line, '\t')) {
        texts_->stream() << '\t' << Printable(std::string(column));
      }
      texts_->stream() << '\n';
    }
  }
  return texts_->Finish();
}

void Output::Finalize() {
  for (const Sink& sink : sinks_) {
    sink.writer->Finish();
    if (sink.file == nullptr) continue;
    absl::Status status = sink.file->Finish();
    if (status_.ok()) status_ = status;
  }
  if (texts_ != nullptr) {
    absl::Status status = WriteTexts();
    if (status_.ok()) status_ = status;
  }
  std::cout << whole_.str() << std::flush;
  if (status_.ok() && !std::cout) status_ = absl::UnavailableError("cannot write to standard output");
}

}  // namespace roofbench
