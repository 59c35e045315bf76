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
#include "lib/gbench/library.h"
#include "lib/gbench/reporters/axis_columns.h"
#include "lib/gbench/reporters/csv_reporter.h"
#include "lib/gbench/reporters/json_reporter.h"
#include "lib/gbench/reporters/layout.h"

namespace roofbench {
namespace {

std::unique_ptr<benchmark::BenchmarkReporter> MakeSink(const std::string& format, const Session& session) {
  if (format == "json") return std::make_unique<JsonRows>(AxisColumns(session));
  return std::make_unique<CsvTable>(AxisColumns(session));
}

// Whether the library is about to report aggregates of these rows: it does so of two or more without an error.
bool HaveAggregates(const std::vector<LibraryRun>& runs) {
  return std::count_if(runs.begin(), runs.end(), [](const LibraryRun& run) { return !IsError(run); }) >= 2;
}

}  // namespace

std::string ComparablePath(const std::string& path) {
  return absl::StrCat(std::string(absl::StripSuffix(path, ".json")), ".comparable.json");
}

Output::Output(const Session& session, const Options& options, SharedState& state)
    : session_(session), options_(options), state_(state) {
  for (std::size_t i = 0; i < session.plan().size(); ++i) shown_before_.push_back(state.shown(i));
  if (options.format == "console") {
    console_ = std::make_unique<ConsoleTable>(session, WantsColor(options.color), TerminalWidth(STDOUT_FILENO));
  } else {
    sinks_.push_back({.reporter = MakeSink(options.format, session)});
    sinks_.back().reporter->SetOutputStream(&whole_);
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
  Sink sink{.reporter = MakeSink(options_.out_format, session_), .file = std::move(file), .errors = errors};
  sink.reporter->SetOutputStream(&sink.file->stream());
  sink.reporter->SetErrorStream(&sink.file->stream());
  sinks_.push_back(std::move(sink));
  return absl::OkStatus();
}

bool Output::ReportContext(const Context& context) {
  for (const Sink& sink : sinks_) sink.reporter->ReportContext(context);
  return true;
}

void Output::ReportRuns(const std::vector<Run>& runs) {
  std::vector<Run> corrected;
  for (const Run& run : runs) {
    const Outcome* outcome = OutcomeOf(run, session_);
    // What an interruption kept from running is not a result.
    if (outcome != nullptr && outcome->verdict == Verdict::kInterrupted) continue;
    corrected.push_back(Corrected(run, session_));
  }
  // Those are all that standard output gets, if that was asked for; files get the repetitions, too.
  const bool is_displayed = !options_.display_aggregates_only || runs.empty() ||
                            runs.front().run_type == Run::RT_Aggregate || options_.repetitions < 2 ||
                            !HaveAggregates(runs);
  if (is_displayed) Show(corrected);
  std::vector<Run> results;
  std::copy_if(corrected.begin(), corrected.end(), std::back_inserter(results),
               [](const Run& run) { return !IsError(run); });
  for (const Sink& sink : sinks_) {
    const std::vector<Run>& rows = sink.errors ? corrected : results;
    if (rows.empty() || (sink.file == nullptr && !is_displayed)) continue;
    sink.reporter->ReportRuns(rows);
  }
}

void Output::Show(const std::vector<Run>& rows) {
  if (console_ == nullptr || rows.empty()) return;
  const std::size_t index = PlanIndex(rows.front());  // rows come case by case
  if (shown_before_.at(index)) return console_->GoOnAfter(rows);
  console_->ReportRuns(rows);
  console_->GetOutputStream().flush();
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
    sink.reporter->Finalize();
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
