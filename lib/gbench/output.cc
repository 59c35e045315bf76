// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/output.h"

#include <unistd.h>

#include <deque>
#include <iostream>
#include <map>
#include <string>

#include "absl/strings/str_split.h"
#include "lib/base/text.h"
#include "lib/gbench/reporters.h"

namespace roofbench {

ConsoleReporter::ConsoleReporter(const Session& session, const SuiteOptions& options, SharedState& state)
    : session_(session),
      state_(state),
      table_(std::cout, session.reference(), WantsColor(options.color), TerminalWidth(STDOUT_FILENO)) {
  for (std::size_t i = 0; i < session.plan().size(); ++i) shown_before_.push_back(state.shown(i));
}

void ConsoleReporter::ReportRuns(const std::vector<Run>& runs) {
  if (runs.empty()) return;
  const auto index = static_cast<std::size_t>(runs.front().family_index);
  if (shown_before_.at(index)) return table_.ContinueAfter(session_.plan().at(index).name);
  const std::vector<Run> rows = ResultRuns(session_, runs);
  if (rows.empty()) return;
  table_.Add(rows, session_.OutcomesOf(index));
  state_.SetShown(index);
}

Output::Output(const Session& session, const SuiteOptions& options, SharedState& state)
    : session_(session), options_(options) {
  if (options.format == "console") {
    display_ = std::make_unique<ConsoleReporter>(session, options, state);
  } else {
    display_ = MakeFileReporter(options.format, /*counters_tabular=*/false, session, whole_);
  }
}

absl::Status Output::Open() {
  if (!options_.tokens_out.empty()) {
    if (absl::Status status = texts_.Open(options_.tokens_out); !status.ok()) return status;
  }
  if (options_.out.empty()) return absl::OkStatus();
  if (absl::Status status = file_.Open(options_.out); !status.ok()) return status;
  file_reporter_ = MakeFileReporter(options_.out_format, options_.counters_tabular, session_, file_.stream());
  return absl::OkStatus();
}

absl::Status Output::WriteTexts() {
  std::map<std::string, std::string> lines;
  for (std::size_t index = 0; index < session_.plan().size(); ++index) {
    const std::deque<Outcome>& outcomes = session_.OutcomesOf(index);
    if (!outcomes.empty() && !outcomes.back().text.empty()) lines[outcomes.back().name] = outcomes.back().text;
  }
  for (const auto& [name, text] : lines) {
    for (const auto& line : absl::StrSplit(text, '\n')) {
      texts_.stream() << name;
      for (const auto& column : absl::StrSplit(line, '\t')) {
        texts_.stream() << '\t' << Printable(std::string(column));
      }
      texts_.stream() << '\n';
    }
  }
  return texts_.Finish();
}

absl::Status Output::Finish() {
  absl::Status status;
  if (file_reporter_ != nullptr) status.Update(file_.Finish());
  if (!options_.tokens_out.empty()) status.Update(WriteTexts());
  std::cout << whole_.str() << std::flush;
  if (!std::cout) status.Update(absl::UnavailableError("cannot write to standard output"));
  return status;
}

}  // namespace roofbench
