// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/suite_run.h"

#include <benchmark/benchmark.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/process.h"
#include "lib/base/text.h"
#include "lib/gbench/context_facts.h"
#include "lib/gbench/output.h"
#include "lib/gbench/reporters.h"
#include "lib/hardware/machine_facts.h"
#include "lib/hardware/process_memory.h"
#include "lib/hardware/thread_places.h"
#include "lib/results/evaluation.h"
#include "lib/results/journal.h"
#include "lib/run/doctor.h"
#include "lib/run/library_warnings.h"
#include "lib/run/progress.h"
#include "lib/run/roof_stage.h"
#include "lib/run/run_context.h"
#include "lib/run/session.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

void InitializeLibrary(const SuiteOptions& options) {
  benchmark::SetDefaultTimeUnit(benchmark::kMicrosecond);
  static std::vector<std::string> arguments;  // the library keeps a pointer to the program's name
  arguments = {Printable(options.program)};   // part of the results
  arguments.insert(arguments.end(), options.library_flags.begin(), options.library_flags.end());
  arguments.push_back(absl::StrCat("--benchmark_repetitions=", options.repetitions));
  // It would empty the file before the first case; its reporter has one that is replaced after the last.
  if (!options.out.empty()) arguments.emplace_back("--benchmark_out=/dev/null");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, pointers.data());
}

// Whether anybody may read the console: tools that start many short processes discard it.
bool ConsoleIsRead() {
  struct stat out {};
  struct stat null {};
  return fstat(STDOUT_FILENO, &out) != 0 || stat("/dev/null", &null) != 0 || out.st_rdev != null.st_rdev;
}

class SuiteRun {
 public:
  SuiteRun(const SuiteOptions& options, const std::vector<PlannedCase>& plan, std::string journal, SharedState& state,
           Device& device, RankTeams* teams)
      : options_(options),
        journal_path_(std::move(journal)),
        state_(state),
        device_(device),
        session_(
            options, device, plan, [&state] { return state.signal() != 0; }, teams),
        output_(session_, options, state),
        progress_(std::cerr, isatty(STDERR_FILENO) != 0, TerminalWidth(STDERR_FILENO),
                  [&device] { return device.clock().HostSeconds(); }) {}

  int Run() {
    if (absl::Status status = output_.Open(); !status.ok()) return Refuse(status);
    const absl::StatusOr<RunFacts> facts = Begin();
    if (!facts.ok()) return Refuse(facts.status());
    for (const auto& [key, value] : *facts) {
      // Facts from a journal are untrusted.
      if (!IsWrittenByLibrary(key)) benchmark::AddCustomContext(Printable(key), Printable(value));
    }
    const std::vector<double> expected = ExpectedSeconds(session_.plan(), options_, device_);
    if (options_.format == "console" && !state_.described()) {
      std::size_t left = 0;
      double seconds = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        for (int repetition = 0; repetition < options_.repetitions; ++repetition) {
          if (session_.IsRestored(i, repetition)) continue;
          ++left;
          seconds += expected[i];
        }
      }
      std::cout << DescribeRun(options_, device_, roofs_, TerminalWidth(STDOUT_FILENO))
                << PlanText(expected.size(), options_.repetitions, left, seconds) << std::endl;
      state_.SetDescribed();
    }
    for (const std::string& warning : warnings_) {
      if (!warning.empty()) std::cerr << ProgramName() << ": " << warning << std::endl;
    }
    session_.OnBegin([this](std::size_t index, int repetition) {
      state_.BeginCase(index, repetition);
      progress_.Start(index, session_.plan()[index].name);
    });
    session_.OnSampling([this] { state_.SetSampling(); });
    progress_.Expect(expected, options_.repetitions);
    session_.OnFinished([this](const Outcome& outcome) {
      state_.EndCase();  // before its line is written: an ended case either has one or runs again
      ran_here_ = true;
      // One line says that the run was cut short. Those of all cases that are left could fill the disk.
      if (outcome.verdict == Verdict::kInterrupted && std::exchange(was_interrupted_, true)) return;
      if (absl::Status status = journal_.Append(outcome); !status.ok()) ReportLostLine(outcome, status);
    });
    session_.OnLostProfile([this](const absl::Status& status) {
      std::cerr << ProgramName() << ": " << Printable(std::string(status.message())) << std::endl;
      profile_status_.Update(status);
    });
    for (std::size_t index = 0; index < session_.plan().size(); ++index) {
      benchmark::RegisterBenchmark(session_.plan()[index].name.c_str(),
                                   [this, index](benchmark::State& state) { RunInLibrary(state, index); })
          ->UseManualTime()
          ->Iterations(1);
    }
    benchmark::RunSpecifiedBenchmarks(output_.display(), output_.file(), ".");  // the plan is filtered
    output_status_ = output_.Finish();
    if (output_status_.ok()) state_.SetWritten();
    const int status = End();
    state_.SetFinished();
    return status;
  }

 private:
  std::size_t Repetitions() const { return session_.plan().size() * static_cast<std::size_t>(options_.repetitions); }

  // Opens the journal, takes the outcomes of earlier processes from it, and measures the roofs if any case is left.
  // Returns the facts of the run, which are those of its first process.
  absl::StatusOr<RunFacts> Begin() {
    const absl::StatusOr<RunIdentity> identity = IdentityOf(options_, device_);
    if (!identity.ok()) return identity.status();
    if (absl::Status status = CheckContextKeys(options_.context, RunContext(options_, device_)); !status.ok()) {
      return status;
    }
    std::size_t finished = 0;
    RunFacts facts;
    const bool is_first_process = !state_.journal_begun();
    if (options_.resume || state_.journal_begun()) {
      absl::StatusOr<Recorded> recorded =
          journal_.Resume(journal_path_, *identity, options_.resume_doubtful && !state_.journal_begun());
      if (recorded.ok()) {
        if (!state_.journal_begun()) {
          for (const std::string& note : recorded->notes) std::cerr << ProgramName() << ": " << note << '\n';
        }
        state_.SetJournalBegun();
        finished = recorded->outcomes.size();
        facts = std::move(recorded->context);
        session_.Restore(std::move(recorded->outcomes));
      } else if (absl::IsNotFound(recorded.status())) {
        std::cerr << ProgramName() << ": " << std::string(recorded.status().message()) << '\n';
      } else {
        return recorded.status();
      }
    }
    RoofOrigin roofs;
    // Before the signal is looked at: a later one ends the run, unless there are results to write.
    state_.SetPreparing(!state_.journal_begun());
    if (finished < Repetitions() && state_.signal() == 0) {
      progress_.Announce("measuring the roofs");  // a busy machine may take half a minute
      roofs = PrepareRoofs(options_, session_.plan(), device_);
      progress_.Announce("");
    }
    state_.SetPreparing(false);
    roofs_ = finished < Repetitions() ? roofs.text : "as in the journal";
    if (is_first_process && finished < Repetitions()) {
      warnings_ = {options_.pressure.empty() ? BusyText(LoadNow(roofs)) : options_.pressure,
                   hardware::FindThreadPlaces(device_.threads()).CrowdText()};
    }
    if (!facts.empty()) return facts;
    facts = RunContext(options_, device_, roofs);
    facts.insert(facts.end(), options_.context.begin(), options_.context.end());
    if (journal_path_.empty()) return facts;
    const RunHeader header = {.identity = *identity,
                              .context = facts,
                              .contract = options_.contract,
                              .cases = Repetitions(),
                              .arguments = options_.arguments};
    if (absl::Status status = journal_.Create(journal_path_, header); !status.ok()) return status;
    state_.SetJournalBegun();
    return facts;
  }

  // The share of the processors that other programs use; 0 without roofs, and if a look would delay a run that writes
  // to no console.
  double LoadNow(const RoofOrigin& roofs) const {
    if (roofs.load_now) return *roofs.load_now;
    constexpr double kLook = 0.1;  // seconds, of which the system counts hundredths: a start takes 0.8
    return roofs.is_reused && options_.format == "console" && ConsoleIsRead() ? hardware::OthersShare(kLook) : 0;
  }

  // Reports immediately, while the user may still be able to fix the cause.
  void ReportLostLine(const Outcome& outcome, const absl::Status& status) {
    if (journal_status_.ok()) {
      std::cerr << ProgramName() << ": " << std::string(status.message()) << "; the run continues, but lines from "
                << outcome.name << " on are lost until there is room (Ctrl-C ends the run in order)" << std::endl;
    }
    journal_status_ = status;
  }

  // After the row of the case that they came with.
  void SayLibraryWarnings() {
    for (const std::string& warning : library_warnings_.Take()) {
      std::cerr << ProgramName() << ": " << warning << std::endl;
    }
  }

  // Runs one repetition inside one iteration of the library's loop.
  void RunInLibrary(benchmark::State& state, std::size_t index) {
    SayLibraryWarnings();
    // Free memory, and therefore the limit, changes between cases. Without a limit, an overrun ends the process.
    if (device_.SharesHostMemory()) hardware::LimitMemory(device_.FreeMemoryBytes());
    ran_here_ = false;
    const Outcome& outcome = session_.Run(index);
    hardware::LiftMemoryLimit();
    progress_.Finish(index);
    if (outcome.verdict == Verdict::kFailed) LeaveABrokenDevice(outcome);
    const bool wants_another = options_.fresh_process || (options_.supervise && session_.needs_new_process());
    if (wants_another && ran_here_ && journal_status_.ok() && state_.signal() == 0) RequestRespawn();
    ReportTo(state, outcome, /*is_first_of_several=*/options_.repetitions > 1 && outcome.repetition == 0);
  }

  // Some GPU errors persist for the lifetime of their process, so another process continues the run.
  void LeaveABrokenDevice(const Outcome& outcome) {
    if (!options_.supervise || !journal_status_.ok()) return;
    const absl::Status health = device_.Health();
    if (health.ok()) return;
    std::cerr << ProgramName() << ": " << outcome.name << ": " << Printable(outcome.reason)
              << "; the device is lost to this process (" << std::string(health.message())
              << "), and the run continues in another" << std::endl;
    RequestRespawn();
  }

  // The successor takes this process's results from the journal. An orderly exit would query a lost device and write
  // results.
  [[noreturn]] void RequestRespawn() {
    state_.RequestRespawn();
    _exit(kExitFailed);
  }

  int End() {
    SayLibraryWarnings();
    if (options_.format == "console") std::cout << DoubtText() << NextCommand() << std::flush;
    for (const absl::Status& status : {output_status_, journal_status_}) {
      if (!status.ok()) std::cerr << ProgramName() << ": " << std::string(status.message()) << '\n';
    }
    if (!output_status_.ok() && journal_status_.ok() && !options_.journal.empty()) {
      std::cerr << ProgramName() << ": " << options_.journal << " has every case: --journal=" << options_.journal
                << " --resume writes the rest\n";
    }
    if (state_.signal() != 0) {
      std::cerr << ProgramName() << ": interrupted by signal " << state_.signal() << "; what was measured is written\n";
      return kExitSignal + state_.signal();
    }
    const int failed = session_.failed();
    if (failed > 0) std::cerr << ProgramName() << ": " << Counted(failed, "case") << " failed\n";
    const bool is_whole = output_status_.ok() && journal_status_.ok() && profile_status_.ok();
    return failed > 0 || !is_whole ? kExitFailed : EXIT_SUCCESS;
  }

  // How many rows say little, why, and the way out.
  std::string DoubtText() const {
    std::map<std::string, int> reasons;
    int measured = 0;
    int in_doubt = 0;
    std::size_t few = 0;
    for (std::size_t index = 0; index < session_.plan().size(); ++index) {
      for (const Outcome& outcome : session_.OutcomesOf(index)) {
        if (outcome.verdict == Verdict::kMeasured) ++measured;
        // Several repetitions have enough together.
        if (options_.repetitions == 1 && HasFewSamples(outcome)) ++few;
        if (!IsInDoubt(outcome)) continue;
        ++in_doubt;
        if (outcome.disturbed) ++reasons["disturbed"];
        if (outcome.conditions.throttled) ++reasons["throttled"];
        for (const std::string& reason : outcome.noise) ++reasons[reason];
      }
    }
    const std::string of_few =
        few == 0 ? ""
                 : absl::StrCat("\n", Counted(few, "row"), few == 1 ? " has" : " have", " fewer than ",
                                timing::kFewestForInterval,
                                " samples, which bound no median:\n  --max_time=SECONDS takes more\n");
    if (in_doubt == 0) return of_few;
    const bool has_journal = !options_.journal.empty() && IsReplaceable(options_.journal);
    return absl::StrCat(
        "\n", in_doubt, " of ", Counted(static_cast<std::size_t>(measured), "row"), in_doubt == 1 ? " is" : " are",
        " in doubt (", absl::StrJoin(reasons, ", ", absl::PairFormatter(" ")),
        "): --wait_quiet=600 waits for a quiet machine",
        has_journal ? absl::StrCat("; later,\n  --resume=doubtful --journal=", options_.journal, " measures them again")
                    : "",
        "\n", of_few);
  }

  // The last line after the table, if there is a file to read.
  std::string NextCommand() const {
    const bool has_json = !options_.out.empty() && options_.out_format == "json";
    const std::string& file = options_.journal.empty() && has_json ? options_.out : options_.journal;
    if (file.empty() || !IsReplaceable(file)) return "";
    const std::string program = ReportProgram();
    return absl::StrCat(
        "\n", program, " summary ", file, "   fastest implementations, growth, precisions;\n", program, " table ", file,
        "     every figure\n",
        program == kInstalled ? "(it is part of roofbench's Python package, and of a checkout as tools/report)\n" : "");
  }

  static constexpr const char* kInstalled = "roofreport";
  // As it can be called from this folder: in a checkout, by the program's path in one, else as Python's package has it.
  static std::string ReportProgram() {
    std::error_code error;
    const std::filesystem::path in_checkout = "tools/report";
    if (std::filesystem::exists(in_checkout, error)) return in_checkout.string();
    // build/<preset>/bin/<program>
    std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error);
    for (int up = 0; up < 4; ++up) folder = folder.parent_path();
    if (!folder.empty() && std::filesystem::exists(folder / in_checkout, error)) return folder / in_checkout;
    return kInstalled;
  }

  const SuiteOptions& options_;
  const std::string journal_path_;
  SharedState& state_;
  Device& device_;
  Session session_;
  Output output_;
  Progress progress_;
  LibraryWarnings library_warnings_;
  Journal journal_;
  absl::Status output_status_;
  absl::Status journal_status_;
  absl::Status profile_status_;
  std::string roofs_;                  // their origin
  std::vector<std::string> warnings_;  // before the first case; empty ones are none
  bool was_interrupted_ = false;
  bool ran_here_ = false;  // whether the last repetition ran here instead of coming from the journal
};

}  // namespace

int Refuse(const absl::Status& status) {
  std::cerr << ProgramName() << ": " << Printable(std::string(status.message())) << '\n';
  return kExitRefused;
}

int RunSuite(const SuiteOptions& options, const std::vector<PlannedCase>& plan, const std::string& journal,
             SharedState& state, Device& device, RankTeams* teams) {
  InitializeLibrary(options);
  return SuiteRun(options, plan, journal, state, device, teams).Run();
}

}  // namespace roofbench
