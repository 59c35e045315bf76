#include "lib/harness/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

absl::Status FileError(const std::string& path, const char* what) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

Output::Output(const Session& session) : session_(session) {
  sinks_.push_back(MakeSink(session.options().format, session));
}

absl::Status Output::Open() {
  const std::string& path = session_.options().out;
  if (path.empty()) return absl::OkStatus();
  partial_path_ = path + ".part";
  file_.open(partial_path_);
  if (!file_) return FileError(partial_path_, "write");
  sinks_.push_back(MakeSink(session_.options().out_format, session_));
  sinks_.back()->SetOutputStream(&file_);
  sinks_.back()->SetErrorStream(&file_);
  return absl::OkStatus();
}

bool Output::ReportContext(const Context& context) {
  for (const auto& sink : sinks_) sink->ReportContext(context);
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
  if (corrected.empty()) return;
  for (const auto& sink : sinks_) {
    sink->ReportRuns(corrected);
    sink->GetOutputStream().flush();
  }
}

void Output::Finalize() {
  for (const auto& sink : sinks_) sink->Finalize();
  if (!file_.is_open()) return;
  errno = 0;
  file_.close();
  if (file_.fail()) {
    status_ = FileError(partial_path_, "finish");
  } else if (std::rename(partial_path_.c_str(), session_.options().out.c_str()) != 0) {
    status_ = FileError(session_.options().out, "write");
  }
}

}  // namespace roofbench
