#include "lib/harness/output.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/harness/console_reporter.h"
#include "lib/harness/csv_reporter.h"
#include "lib/harness/library.h"

namespace roofbench {
namespace {

std::unique_ptr<benchmark::BenchmarkReporter> MakeSink(const std::string& format, const Session& session) {
  if (format == "json") return std::make_unique<benchmark::JSONReporter>();
  if (format == "csv") return std::make_unique<CsvTable>();
  return std::make_unique<ConsoleTable>(session, WantsColor(session.options().color));
}

}  // namespace

std::string ComparablePath(const std::string& path) {
  return absl::StrCat(std::string(absl::StripSuffix(path, ".json")), ".comparable.json");
}

Output::Output(const Session& session) : session_(session) {
  const std::string& format = session.options().format;
  sinks_.push_back({.reporter = MakeSink(format, session)});
  if (format != "console") sinks_.back().reporter->SetOutputStream(&whole_);
}

absl::Status Output::Open() {
  const Options& options = session_.options();
  if (options.out.empty()) return absl::OkStatus();
  if (absl::Status status = AddFile(options.out, /*errors=*/true); !status.ok()) return status;
  if (options.out_format != "json" || !IsReplaceable(options.out)) return absl::OkStatus();
  return AddFile(ComparablePath(options.out), /*errors=*/false);
}

absl::Status Output::AddFile(const std::string& path, bool errors) {
  auto file = std::make_unique<WholeFile>();
  if (absl::Status status = file->Open(path); !status.ok()) return status;
  Sink sink{.reporter = MakeSink(session_.options().out_format, session_), .file = std::move(file), .errors = errors};
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
  std::vector<Run> results;
  std::copy_if(corrected.begin(), corrected.end(), std::back_inserter(results),
               [](const Run& run) { return !IsError(run); });
  for (const Sink& sink : sinks_) {
    const std::vector<Run>& rows = sink.errors ? corrected : results;
    if (rows.empty()) continue;
    sink.reporter->ReportRuns(rows);
    sink.reporter->GetOutputStream().flush();
    if (sink.file != nullptr) sink.file->Flush();
  }
}

void Output::Finalize() {
  for (const Sink& sink : sinks_) {
    sink.reporter->Finalize();
    if (sink.file == nullptr) continue;
    absl::Status status = sink.file->Finish();
    if (status_.ok()) status_ = status;
  }
  std::cout << whole_.str() << std::flush;
  if (status_.ok() && !std::cout) status_ = absl::UnavailableError("cannot write to standard output");
}

}  // namespace roofbench
