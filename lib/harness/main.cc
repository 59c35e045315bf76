#include "lib/harness/main.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/hardware/memory_limit.h"
#include "lib/harness/counters.h"
#include "lib/harness/journal.h"
#include "lib/harness/laws.h"
#include "lib/harness/library.h"
#include "lib/harness/options.h"
#include "lib/harness/output.h"
#include "lib/harness/plan.h"
#include "lib/harness/precisions.h"
#include "lib/harness/progress.h"
#include "lib/harness/restart.h"
#include "lib/harness/run_context.h"
#include "lib/harness/run_identity.h"
#include "lib/harness/session.h"
#include "lib/harness/text.h"
#include "lib/harness/watchdog.h"
#include "lib/harness/winners.h"
#include "lib/observe/ranges.h"

namespace roofbench {
namespace {

// A case's medians over its repetitions; negative seconds if it was not measured.
Contender ContenderOf(const std::string& name, const std::deque<Outcome>& outcomes) {
  std::vector<double> seconds;
  std::vector<double> roofs;
  for (const Outcome& outcome : outcomes) {
    if (outcome.verdict != Verdict::kMeasured) continue;
    seconds.push_back(outcome.summary.median);
    if (!outcome.roof_ratios.empty()) roofs.push_back(timing::Median(outcome.roof_ratios));
  }
  return {.name = name,
          .seconds = seconds.empty() ? -1.0 : timing::Median(seconds),
          .roof = roofs.empty() ? std::nullopt : std::optional(timing::Median(roofs))};
}

constexpr int kFailed = 1;
constexpr int kRefused = 2;
constexpr int kSignalBase = 128;

volatile std::sig_atomic_t g_signal = 0;

void OnSignal(int signal) {
  g_signal = signal;
  // A second one ends the program at once, should a step hang.
  std::signal(signal, SIG_DFL);
}

int Refuse(const absl::Status& status) {
  std::cerr << "roofbench: " << std::string(status.message()) << '\n';
  return kRefused;
}

// Asks LibTorch's allocator for huge pages, as the probes of the roof have them. It reads the variable once, so before
// the first tensor; a user's own setting wins.
void PreferHugePages() { setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0); }

// What watches over the running case.
struct Guard {
  Watchdog watchdog;
  Outcome running = {};  // name and repetition, for the watchdog
};

// Free memory changes from case to case, and so does the limit. Without one an overrun on the CPU ends the process.
const Outcome& RunGuarded(const PlannedCase& planned, Session& session, Guard& guard) {
  guard.running.name = planned.name;
  guard.running.repetition = static_cast<int>(session.OutcomesOf(planned.name).size());
  if (session.device().kind() == "cpu") hardware::LimitMemory(session.device().FreeMemoryBytes());
  guard.watchdog.Arm();
  const Outcome& outcome = session.Run(planned);
  guard.watchdog.Disarm();
  hardware::LiftMemoryLimit();
  return outcome;
}

// Runs one repetition inside one iteration of the library's loop, so that its rates divide by our median.
void RunInLibrary(benchmark::State& state, const PlannedCase& planned, Session& session, Guard& guard,
                  Progress& progress) {
  progress.Start(planned.name);
  const Outcome& outcome = RunGuarded(planned, session, guard);
  progress.Finish();
  const bool measured = outcome.verdict == Verdict::kMeasured;
  // The iteration runs in any case: the library stops the program where repetitions of a case differ in their
  // iterations.
  for ([[maybe_unused]] auto iteration : state) state.SetIterationTime(measured ? outcome.summary.median : 0);
  if (!measured) {
    state.SkipWithError(absl::StrCat(View(Name(outcome.verdict)), ": ", outcome.reason).c_str());
    return;
  }
  for (const auto& [name, value] : outcome.counters) state.counters[name] = value;
  state.SetLabel(std::string(Name(outcome.samples.stop)));
}

// The library would take these for itself and rerun the case until they are met.
std::vector<std::string> LibraryArguments(const Options& options) {
  std::vector<std::string> arguments = options.library_arguments;
  arguments.emplace_back(MinTimeHasUnit() ? "--benchmark_min_time=0s" : "--benchmark_min_time=0");
  return arguments;
}

// The precisions whose roofs the plan needs.
std::vector<workload::Dtype> PlannedDtypes(const std::vector<PlannedCase>& plan) {
  std::set<workload::Dtype> dtypes;
  for (const PlannedCase& planned : plan) {
    const workload::Cost cost = planned.family->CostOf(planned.point);
    for (const workload::Dtype dtype : workload::kDtypes) {
      if (cost.Flops(dtype) > 0) dtypes.insert(dtype);
    }
  }
  return {dtypes.begin(), dtypes.end()};
}

int Repetitions(const Options& options) {
  int repetitions = 1;
  for (const std::string& argument : options.library_arguments) {
    constexpr char kFlag[] = "--benchmark_repetitions=";
    if (argument.rfind(kFlag, 0) == 0) repetitions = std::atoi(argument.c_str() + sizeof(kFlag) - 1);
  }
  return repetitions;
}

// Opens the journal, takes from it what an earlier process has finished, and measures the roofs if there is anything
// left to run. Returns the facts of the run, which are those of its first process.
absl::StatusOr<RunFacts> Begin(const Options& options, const std::vector<PlannedCase>& plan, Device& device,
                               Session& session, Journal& journal) {
  const absl::StatusOr<RunIdentity> identity = IdentityOf(options, device);
  if (!identity.ok()) return identity.status();
  std::size_t finished = 0;
  RunFacts facts;
  if (options.resume) {
    absl::StatusOr<Recorded> recorded = journal.Resume(options.journal, *identity);
    if (recorded.ok()) {
      finished = recorded->outcomes.size();
      facts = std::move(recorded->context);
      for (const std::string& note : recorded->notes) std::cerr << "roofbench: " << note << '\n';
      std::cerr << "roofbench: going on after " << finished << " finished case(s) of " << options.journal << '\n';
      session.Restore(std::move(recorded->outcomes));
    } else if (absl::IsNotFound(recorded.status())) {
      std::cerr << "roofbench: there is nothing in " << options.journal << " yet: starting with the first case\n";
    } else {
      return recorded.status();
    }
  }
  if (finished < plan.size() * static_cast<std::size_t>(Repetitions(options))) device.Calibrate(PlannedDtypes(plan));
  if (!facts.empty()) return facts;
  facts = RunContext(options, device);
  if (options.journal.empty()) return facts;
  if (absl::Status status = journal.Create(options.journal, *identity, facts); !status.ok()) return status;
  return facts;
}

// The case is a failed row of the journal, and the program starts anew after it.
[[noreturn]] void GiveUp(Outcome hung, const Options& options, Journal& journal, const Restart& restart) {
  hung.verdict = Verdict::kFailed;
  hung.reason = absl::StrCat("not finished after ", options.case_timeout, " s (--case_timeout)");
  std::cerr << "roofbench: " << hung.name << ": " << hung.reason << "; the run goes on after it\n";
  const absl::Status status = journal.Append(hung);
  const std::string reason = status.ok() ? restart.Execute(g_signal) : std::string(status.message());
  std::cerr << "roofbench: cannot go on: " << reason << "; --resume goes on after the last case of " << options.journal
            << std::endl;
  std::_Exit(kFailed);
}

int RunPlan(const Options& options, const std::vector<PlannedCase>& plan, Device& device, const Restart& restart) {
  Session session(options, device, [] { return g_signal != 0; });
  Output output(session);
  if (absl::Status status = output.Open(); !status.ok()) return Refuse(status);
  Journal journal;
  const absl::StatusOr<RunFacts> context = Begin(options, plan, device, session, journal);
  if (!context.ok()) return Refuse(context.status());
  Guard guard{.watchdog = Watchdog(options.case_timeout, [&] { GiveUp(guard.running, options, journal, restart); })};
  absl::Status journal_status;
  session.OnFinished([&](const PlannedCase&, const Outcome& outcome) {
    guard.watchdog.Disarm();  // first: a case has one line
    if (absl::Status status = journal.Append(outcome); !status.ok()) journal_status = status;
  });
  for (const auto& [key, value] : *context) benchmark::AddCustomContext(key, value);
  if (options.format == "console") {
    if (restart.restarted()) std::cout << "\nThe program started anew after a case that hung; all cases again:\n";
    std::cout << DescribeRun(options, device) << std::flush;
  }

  Progress progress(static_cast<int>(plan.size()) * Repetitions(options), isatty(STDERR_FILENO) != 0);
  for (const PlannedCase& planned : plan) {
    benchmark::RegisterBenchmark(planned.name.c_str(),
                                 [&planned, &session, &guard, &progress](benchmark::State& state) {
                                   RunInLibrary(state, planned, session, guard, progress);
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks(&output, ".");

  if (options.format == "console") {
    const auto measured = [&](const std::string& name) { return ContenderOf(name, session.OutcomesOf(name)); };
    std::vector<Contender> contenders;
    std::vector<Serving> servings;
    for (const PlannedCase& planned : plan) {
      contenders.push_back(measured(planned.name));
      const std::deque<Outcome>& outcomes = session.OutcomesOf(planned.name);
      const auto serving = outcomes.empty() ? std::nullopt : ServingOf(outcomes.back());
      if (serving) servings.push_back(*serving);
    }
    std::cout << DescribeWinners(FindWinners(contenders)) << DescribePrecisions(servings)
              << DescribeLaws(FitLaws(plan, [&](const std::string& name) { return measured(name).seconds; }))
              << std::flush;
  }
  for (const absl::Status& status : {output.status(), journal_status}) {
    if (!status.ok()) std::cerr << "roofbench: " << std::string(status.message()) << '\n';
  }
  if (!output.status().ok() && journal_status.ok() && !options.journal.empty()) {
    std::cerr << "roofbench: " << options.journal
              << " has every case: the same command with --resume writes the rest\n";
  }
  if (g_signal != 0) {
    std::cerr << "roofbench: interrupted by signal " << g_signal << "; what was measured is written\n";
    return kSignalBase + g_signal;
  }
  if (session.failed() > 0) std::cerr << "roofbench: " << session.failed() << " case(s) failed\n";
  return session.failed() > 0 || !output.status().ok() || !journal_status.ok() ? kFailed : EXIT_SUCCESS;
}

}  // namespace

int Main(int argc, char** argv) {
  const Restart restart(argc, argv);
  PreferHugePages();
  const absl::StatusOr<Options> options = ParseOptions({argv, argv + argc});
  if (!options.ok()) return Refuse(options.status());
  if (options->help) return std::cout << HelpText(), EXIT_SUCCESS;
  if (options->explain_counters) return std::cout << ExplainCounters(), EXIT_SUCCESS;
  if (options->list_axes) return std::cout << DescribeAxes(Families()), EXIT_SUCCESS;
  const absl::StatusOr<std::vector<PlannedCase>> plan = MakePlan(Families(), *options);
  if (!plan.ok()) return Refuse(plan.status());
  if (options->list_tests) {
    for (const PlannedCase& planned : *plan) std::cout << planned.name << kManualTimeSuffix << '\n';
    return EXIT_SUCCESS;
  }
  if (options->nvtx && !observe::EnableRanges()) {
    return Refuse(
        absl::UnimplementedError("--nvtx: this build has no NVTX headers; build where a CUDA toolkit has "
                                 "nvtx3/nvToolsExt.h, or name its folder: "
                                 "-DROOFBENCH_NVTX_INCLUDE=<folder>"));
  }
  const absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(options->device, options->threads);
  if (!device.ok()) return Refuse(device.status());

  ClearLibraryEnvironment();
  std::vector<std::string> arguments = LibraryArguments(*options);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, pointers.data());
  g_signal = restart.signal();
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  // A terminal that closes; what runs under nohup goes on.
  if (std::signal(SIGHUP, OnSignal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  return RunPlan(*options, *plan, **device, restart);
}

}  // namespace roofbench
