// SPDX-License-Identifier: Apache-2.0
#include "lib/run/profiling.h"

#include <ATen/core/grad_mode.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/files.h"
#include "lib/base/text.h"
#include "lib/observe/profile/library_log.h"
#include "lib/observe/profile/recorder.h"
#include "lib/observe/profile/report.h"
#include "lib/observe/profile/tables.h"
#include "lib/observe/ranges.h"
#include "lib/run/thrown.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Makes a range of each phase that occurs once per step. A phase is named where it ends, so the first step establishes
// the order. Repeated phases are parts of a model, which opens its own ranges; the same holds for a step whose own
// range is open where a phase ends, because another range would not nest with it.
class PhaseRanges final : public timing::PhaseMarker {
 public:
  explicit PhaseRanges(const std::vector<std::string>& names) : names_(names), seconds_(names.size()) {}

  void End(int phase) override {
    range_.reset();
    const double now = Now();
    seconds_.at(static_cast<std::size_t>(phase)) += now - last_;
    last_ = now;
    if (followed_) {
      sequence_.push_back(static_cast<std::size_t>(phase));
      has_own_ = has_own_ || !observe::OpenRanges().empty();
    } else if (++ended_ < sequence_.size()) {
      Open();
    }
  }
  // Call after the first step.
  void Learned() {
    followed_.reset();
    const bool recurs = sequence_.size() != std::set<std::size_t>(sequence_.begin(), sequence_.end()).size();
    if (recurs || has_own_) sequence_.clear();
  }
  // Call before the first step that Seconds counts.
  void Restart() { seconds_.assign(names_.size(), 0); }
  void BeginStep() {
    ended_ = 0;
    last_ = Now();
    if (!sequence_.empty()) Open();
  }
  void EndStep() { range_.reset(); }

  // Seconds of a phase, by the host clock, in all steps since Restart.
  double Seconds(std::size_t phase) const { return seconds_.at(phase); }

 private:
  void Open() { range_.emplace(names_.at(sequence_[ended_]).c_str()); }

  const std::vector<std::string>& names_;
  std::optional<observe::FollowedRanges> followed_ = std::make_optional<observe::FollowedRanges>();
  std::vector<std::size_t> sequence_;
  std::size_t ended_ = 0;
  bool has_own_ = false;
  double last_ = 0;  // end of the previous phase
  std::vector<double> seconds_;
  std::optional<observe::Range> range_;
};

// Name of the kernel of a step that opens no range itself; empty for LibTorch's operators.
std::string KernelOf(const PlannedCase& planned) {
  const Implementation* const implementation = planned.family->ImplementationOf(planned.point);
  if (implementation == nullptr || implementation->name == "eager") return "";
  return absl::StrCat(planned.family->name(), " ", implementation->name);
}

// `seconds`: time of all recorded steps.
observe::ProfileFacts FactsOf(const Outcome& outcome, const ProfileOptions& options, const Device& device,
                              double seconds, const PhaseRanges& phases) {
  const auto steps = static_cast<double>(options.steps);
  observe::ProfileFacts facts{.case_name = outcome.name,
                              .device = device.kind(),
                              .threads = device.threads(),
                              .steps = static_cast<int>(options.steps),
                              .timed = outcome.summary.median,
                              .stopwatch = seconds / steps};
  for (std::size_t i = 0; i < outcome.phases.size() && i < outcome.samples.phase_seconds.size(); ++i) {
    facts.phases.push_back({.name = outcome.phases[i],
                            .timed = timing::Median(outcome.samples.phase_seconds[i]),
                            .stopwatch = phases.Seconds(i) / steps});
  }
  return facts;
}

// Runs the steps and returns their total seconds by the host clock.
double RunSteps(const BuiltCase& built, int64_t steps, PhaseRanges& phases) {
  phases.Restart();
  double seconds = 0;
  for (int64_t i = 0; i < steps; ++i) {
    const observe::Range step(observe::kStepRange);
    const double start = Now();
    phases.BeginStep();
    built.CopyOf(i + 1).step(phases);
    phases.EndStep();
    seconds += Now() - start;
  }
  return seconds;
}

// Seconds per step spent outside operators and our kernels, while nothing is recorded.
double BetweenOperators(const BuiltCase& built, int64_t steps, PhaseRanges& phases) {
  const observe::OperatorClock operators;
  const double seconds = RunSteps(built, steps, phases);
  return (seconds - operators.seconds()) / static_cast<double>(steps);
}

// Logs of oneDNN and MKL for a step; empty for a GPU.
std::string LibraryLogOf(const BuiltCase& built, const Device& device, PhaseRanges& phases) {
  if (!device.torch_device().is_cpu()) return "";
  const observe::LibraryLog log;
  RunSteps(built, 1, phases);
  return log.Text();
}

// Throws whatever the step throws.
absl::Status ProfileSteps(const PlannedCase& planned, const BuiltCase& built, const ProfileOptions& options,
                          Device& device, const Outcome& outcome) {
  const at::AutoGradMode grad(built.first().autograd);
  PhaseRanges phases(built.first().phases);
  built.first().step(phases);
  phases.Learned();
  const double between = BetweenOperators(built, options.steps, phases);
  const std::string routines = LibraryLogOf(built, device, phases);
  {
    // Establishes the memory layout of the recorded steps. The profiler's records lie between the tensors that a step
    // allocates, so tensors of the next step do not fit there: it touches fresh pages, which takes as long as the step
    // itself.
    const observe::Recorder rehearsal(device.torch_device().is_cuda());
    RunSteps(built, options.steps, phases);
  }
  observe::Recorder recorder(device.torch_device().is_cuda());
  const double seconds = RunSteps(built, options.steps, phases);
  if (options.folder.empty()) return absl::OkStatus();
  observe::ProfileTables tables = observe::MakeTables(recorder.Finish(), {.steps = static_cast<int>(options.steps),
                                                                          .depth = static_cast<int>(options.depth),
                                                                          .sort = options.sort,
                                                                          .kernel = KernelOf(planned),
                                                                          .between = between});
  tables.routines = observe::RoutinesIn(routines, tables.step);
  const observe::ProfileFacts facts = FactsOf(outcome, options, device, seconds, phases);
  const observe::TextLimits limits{.rows = static_cast<std::size_t>(options.rows),
                                   .width = static_cast<std::size_t>(options.width)};
  const std::string stem = absl::StrCat(options.folder, "/", ProfileStem(planned.name));
  const std::pair<const char*, std::string> files[] = {
      {".txt", observe::ProfileText(facts, tables, limits)}, {".json", observe::ProfileJson(facts, tables)},
      {".operators.csv", observe::OperatorsCsv(tables)},     {".kernels.csv", observe::KernelsCsv(tables)},
      {".modules.csv", observe::ModulesCsv(tables)},         {".routines.csv", observe::RoutinesCsv(tables)}};
  for (const auto& [ending, text] : files) {
    if (absl::Status status = WriteFile(stem + ending, text); !status.ok()) return status;
  }
  return recorder.SaveTrace(stem + ".trace.json");
}

}  // namespace

absl::Status PrepareProfileFolder(const std::string& folder) {
  if (const absl::StatusOr<std::string> real = FollowLinks(folder); !real.ok()) return real.status();
  if (mkdir(folder.c_str(), S_IRWXU | S_IRWXG | S_IRWXO) != 0 && errno != EEXIST) {
    return FileError("make", folder, errno);
  }
  struct stat facts {};
  if (stat(folder.c_str(), &facts) != 0) return FileError("use", folder, errno);
  if (!S_ISDIR(facts.st_mode)) return FileError("write to", folder, ENOTDIR);
  const absl::StatusOr<TempFile> tried = CreateSiblingTempFile(absl::StrCat(folder, "/profile"));
  if (!tried.ok()) return tried.status();
  close(tried->file);
  unlink(tried->path.c_str());
  return absl::OkStatus();
}

std::string ProfileStem(const std::string& case_name) {
  constexpr std::size_t kLongest = 180;  // of the 255 that file systems accept, leaving room for suffixes
  std::string stem;
  bool is_same = true;
  for (const char c : case_name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
    is_same = is_same && (is_plain || c == '/' || c == ':');
    stem += is_plain ? c : c == '/' ? '+' : c == ':' ? '=' : '_';
  }
  if (is_same && stem.size() <= kLongest && !stem.empty() && stem.front() != '.' && stem.front() != '-') return stem;
  stem.resize(std::min(stem.size(), kLongest));
  return absl::StrCat("case_", stem, "+", absl::StrFormat("%016x", PortableHash(case_name)));
}

absl::Status ProfileCase(const PlannedCase& planned, const BuiltCase& built, const ProfileOptions& options,
                         Device& device, const Outcome& outcome) try {
  return ProfileSteps(planned, built, options, device, outcome);
} catch (...) {
  const absl::Status thrown = StatusOfThrown();
  return {thrown.code(), absl::StrCat("the profile of ", outcome.name, ": ", std::string(thrown.message()))};
}

}  // namespace roofbench
