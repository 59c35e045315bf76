// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/main.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/files.h"
#include "lib/base/process.h"
#include "lib/base/start_conditions.h"
#include "lib/base/text.h"
#include "lib/cli/flags.h"
#include "lib/cli/options.h"
#include "lib/cli/output_names.h"
#include "lib/device/device.h"
#include "lib/gbench/suite_run.h"
#include "lib/hardware/machine_facts.h"
#include "lib/hardware/pressure.h"
#include "lib/hardware/process_memory.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/observe/ranges.h"
#include "lib/ranks/group.h"
#include "lib/ranks/place.h"
#include "lib/results/counters.h"
#include "lib/results/journal.h"
#include "lib/results/model_work.h"
#include "lib/run/doctor.h"
#include "lib/run/library_warnings.h"
#include "lib/run/profiling.h"
#include "lib/run/rank_team.h"
#include "lib/run/run_context.h"
#include "lib/run/session.h"
#include "lib/run/supervisor.h"
#include "lib/run/thrown.h"
#include "lib/suite/describe.h"
#include "lib/suite/plan.h"

namespace roofbench {
namespace {

constexpr char kTooLittle[] =
    "this process may not have enough to start with (ulimit -d and -v and the limits of a container say how much it "
    "may have)";

// Handles uncaught exceptions before Main. Allocates nothing.
void FailToStart() {
  const std::type_info* const thrown = abi::__cxa_current_exception_type();
  if (thrown == nullptr || *thrown != typeid(std::bad_alloc)) __gnu_cxx::__verbose_terminate_handler();
  std::fprintf(stderr, "%s: out of memory while the libraries were loaded: %s\n", program_invocation_short_name,
               kTooLittle);
  _exit(kExitRefused);
}

// LibTorch registers its operators, about 50 MB, while it is loaded; the loader runs this array before that. A
// sanitizer has not started by then.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void WatchStart(int argc, char** argv, char** /*environment*/) {
  std::set_terminate(FailToStart);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (const char* const why : {WhyNotToStart(), RaiseStackLimit()}) {
    if (why == nullptr) continue;
    // The C library sets program_invocation_short_name later.
    const char* const slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
    dprintf(STDERR_FILENO, "%s: %s\n", slash != nullptr ? slash + 1 : argc > 0 ? argv[0] : "roofbench", why);
    _exit(kExitRefused);
  }
#endif
}

// Of the start, if this process looked then.
std::optional<hardware::Pressure> g_pressure;

// OpenMP's runtime reads while it is loaded how its threads wait. With --wait_quiet the machine of now is not that of
// the cases.
void YieldUnderPressure(int argc, char** argv, char** environment) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (hardware::IsLeftAlone(environment)) return;
  for (int i = 1; i < argc; ++i) {
    if (std::strstr(argv[i], "wait_quiet") != nullptr) return;
  }
  g_pressure = hardware::ReadPressure();
  if (g_pressure->IsHigh()) hardware::RestartYielding(argv, environment);
#endif
}

// Run in this order before the initializers of any library: a restart needs the whole environment.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries[])(int, char**, char**) = {
    WatchStart, YieldUnderPressure, TakeVariables};

// A longer case hangs, most likely: nobody watches a run that names its own files.
constexpr double kLongestUnwatchedCase = 900;

// Lists the written files, and says how to continue if cases are left. Returns the exit status.
int Conclude(const Options& options, const SharedState& state, AtomicFile& list, int status) {
  const std::vector<std::string> files = WrittenFiles(options, state.journal_begun(), state.written());
  if (!options.written_to.empty()) {
    for (const std::string& file : files) list.stream() << file << '\n';
    if (const absl::Status lost = list.Finish(); !lost.ok()) {
      std::cerr << ProgramName() << ": " << std::string(lost.message()) << '\n';
      if (status == EXIT_SUCCESS) status = kExitFailed;
    }
  } else if (!options.results.empty() && !files.empty() && options.format == "console") {
    std::cout << "\nWritten:\n  " << absl::StrJoin(files, "\n  ") << std::endl;
  }
  if (!state.journal_begun()) return status;
  if (const std::string flags = HowToContinue(options); !flags.empty()) {
    std::cerr << ProgramName() << ": not all cases have run: " << flags << " continues after the last one\n";
  }
  return status;
}

// Exit status of a program that printed an answer instead of running cases.
int Answered() {
  if (std::cout.flush()) return EXIT_SUCCESS;
  std::cerr << ProgramName() << ": cannot write to standard output\n";
  return kExitFailed;
}

// A user's own setting of LibTorch's allocator would make results report a wrong configuration.
absl::Status ApplyAllocator(hardware::Allocator allocator) {
  const std::optional<std::string> expected = hardware::UseAllocator(allocator);
  if (!expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("THP_MEM_ALLOC_ENABLE=", std::getenv("THP_MEM_ALLOC_ENABLE"),
                                                 " in the environment: expected ", *expected,
                                                 ", as --allocator=", View(Name(allocator)), " has it, or nothing"));
}

// The program's name, by default that of its executable file.
std::string NameOf(const Program& program, std::string_view path) {
  if (!program.name.empty()) return program.name;
  const std::size_t slash = path.rfind('/');
  return Printable(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::vector<const Family*> AllFamilies() {
  std::vector<const Family*> families;
  for (const Family& family : Families()) families.push_back(&family);
  return families;
}

std::vector<const Family*> FamiliesOf(const std::vector<PlannedCase>& plan) {
  std::vector<const Family*> families;
  std::set<const Family*> seen;
  for (const PlannedCase& planned : plan) {
    if (seen.insert(planned.family).second) families.push_back(planned.family);
  }
  return families;
}

// Answers a question instead of running cases; returns false if there is none.
bool Answer(const Options& options) {
  if (options.help) {
    std::cout << HelpText(options.help_all);
  } else if (options.version) {
    std::cout << VersionLine(options) << '\n';
  } else if (options.explain_counters) {
    std::cout << ExplainCounters();
  } else if (!options.describe.empty()) {
    nlohmann::ordered_json contract = ContractOf(DescribeFamilies(AllFamilies()));
    contract["models"] = DescribeModelWork();
    std::cout << contract.dump(/*indent=*/1) << '\n';
  } else if (options.list_axes) {
    std::cout << DescribeAxes(Families());
  } else {
    return false;
  }
  return true;
}

// The status of an exception thrown outside of a case, with a remedy.
absl::Status OutsideOfACase() {
  const absl::Status status = StatusOfThrown();
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(std::string(status.message()), ", outside of a case: ", kTooLittle));
}

const char* Variable(const char* name) { return std::getenv(name); }

// The teams of rank 0: the launcher's, which it meets here, or those that it will start.
absl::StatusOr<std::unique_ptr<RankTeams>> TeamsOf(const Options& options, const std::vector<PlannedCase>& plan,
                                                   const ranks::Place& place) {
  std::string fingerprint = FingerprintOf(options, plan);
  if (place.launcher != ranks::Launcher::kNone) {
    absl::StatusOr<std::unique_ptr<RankTeam>> team = RankTeam::Meet(place, fingerprint, RankTimeout(options));
    if (!team.ok()) return team.status();
    return std::make_unique<RankTeams>(options, *std::move(team));
  }
  std::vector<std::string> arguments = {options.program, absl::StrCat("--rank_timeout=", options.rank_timeout)};
  arguments.insert(arguments.end(), options.measuring_flags.begin(), options.measuring_flags.end());
  return std::make_unique<RankTeams>(options, std::move(fingerprint), std::move(arguments));
}

// The whole run of every rank but 0.
int FollowRankZero(const Options& options, const std::vector<PlannedCase>& plan, const ranks::Place& place) try {
  const absl::StatusOr<std::unique_ptr<RankTeam>> team =
      RankTeam::Meet(place, FingerprintOf(options, plan), RankTimeout(options));
  if (!team.ok()) return Refuse(team.status());
  const absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(options.device, options.threads, place.local_rank);
  if (!device.ok()) return Refuse(device.status());
  const LibraryWarnings heard;  // rank 0 takes the same steps, and says them
  Session(options, **device, plan, nullptr).Follow(**team);
  return EXIT_SUCCESS;
} catch (...) {
  std::cerr << ProgramName() << ": rank " << place.rank << ": " << Printable(std::string(StatusOfThrown().message()))
            << '\n';
  return kExitFailed;
}

// A launcher's process is not its own supervisor: the launcher is.
absl::Status CheckLaunched(const Options& options) {
  if (absl::Status status = ranks::GlooIsBuilt(); !status.ok()) return status;
  if (!options.fresh_process && options.case_timeout <= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--fresh_process and --case_timeout need a parent process that this program starts, which a launcher of ranks "
      "replaces; --rank_timeout limits the wait for another rank");
}

// torchrun starts the same command again, which cannot have --resume.
absl::Status ContinueAfterRestart(Options& options) {
  if (!options.given.contains("journal")) {
    return absl::FailedPreconditionError(
        "torchrun has started the ranks again (--max-restarts), and nothing keeps the finished cases: give "
        "--journal=FILE, or no --max-restarts");
  }
  options.resume = true;
  return absl::OkStatus();
}

int ThreadsOf(const Options& options) { return options.threads > 0 ? options.threads : kernels::Processors(); }

// Everything that starts a thread or opens a device must happen in the process that runs the cases.
int OpenAndRun(const Options& options, const std::vector<PlannedCase>& plan, const std::string& journal,
               SharedState& state, const ranks::Place& place) try {
  if (options.nvtx && !observe::EnableRanges()) {
    return Refuse(
        absl::UnimplementedError("--nvtx: this build has no NVTX headers; build where a CUDA toolkit has "
                                 "nvtx3/nvToolsExt.h, or name its folder: "
                                 "-DROOFBENCH_NVTX_INCLUDE=<folder>"));
  }
  const absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(options.device, options.threads, place.local_rank);
  if (!device.ok()) return Refuse(device.status());
  if (options.doctor) {
    std::cout << Examine(**device);
    return Answered();
  }
  const auto share = [&state](double seconds) { return state.signal() != 0 ? 0 : hardware::OthersShare(seconds); };
  if (options.wait_quiet > 0 && !hardware::WaitUntilQuiet(options.wait_quiet, share)) {
    std::cerr << ProgramName() << ": after " << options.wait_quiet
              << " s other programs still use the processors; measuring anyway\n";
  }
  Options with_energy = options;
  with_energy.joules = JoulesOf(**device);
  const absl::StatusOr<std::unique_ptr<RankTeams>> teams = TeamsOf(options, plan, place);
  if (!teams.ok()) return Refuse(teams.status());
  return RunSuite(with_energy, plan, journal, state, **device, teams->get());
} catch (...) {
  const int refused = Refuse(OutsideOfACase());
  return state.journal_begun() || state.described() ? kExitFailed : refused;
}

// Appends the row of a case that ended its process.
absl::Status AppendFailure(const PlannedCase& planned, const RunningCase& running, const std::string& reason,
                           const std::string& path) {
  std::cerr << ProgramName() << ": " << planned.name << ": " << reason << "; the run continues after it" << std::endl;
  Journal journal;
  if (absl::Status status = journal.Continue(path); !status.ok()) return status;
  return journal.Append({.name = planned.name,
                         .axes = AxesOf(planned.point),
                         .repetition = running.repetition,
                         .verdict = Verdict::kFailed,
                         .reason = reason});
}

int RunSupervised(const Options& options, const std::vector<PlannedCase>& plan, SharedState& state) {
  std::string journal = options.journal;
  if (journal.empty()) {
    absl::StatusOr<std::string> nameless = NamelessJournal();
    if (!nameless.ok()) return Refuse(nameless.status());
    journal = *std::move(nameless);
  }
  return Supervise(state, {.case_timeout = options.case_timeout,
                           .run = [&] { return OpenAndRun(options, plan, journal, state, {}); },
                           .fail =
                               [&](const RunningCase& running, const std::string& reason) {
                                 return AppendFailure(plan.at(running.index), running, reason, journal);
                               }});
}

}  // namespace

int Main(int argc, char** argv, const Program& program) try {
  std::set_terminate(__gnu_cxx::__verbose_terminate_handler);
  if (!OpenStandardStreams()) return kExitRefused;
  if (const std::string name = NameOf(program, argc > 0 ? argv[0] : ""); !name.empty()) SetProgramName(name);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails with an error
  const absl::StatusOr<ranks::Place> place = ranks::PlaceOfThisProcess(Variable);
  if (!place.ok()) return Refuse(place.status());
  if (place->launcher == ranks::Launcher::kOurs && !ranks::FollowParent(Variable)) return kExitFailed;
  absl::StatusOr<Options> options = ParseOptions({argv, argv + argc});
  if (!options.ok()) return Refuse(options.status());
  if (absl::Status status = ApplyAllocator(options->allocator); !status.ok()) return Refuse(status);
  options->program_revision = program.revision;
  if (Answer(*options)) return Answered();
  const auto open = [&](const hardware::RoofNeeds& needs) -> absl::StatusOr<FamilyFlags::Opened> {
    absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(options->device, options->threads);
    if (!device.ok()) return device.status();
    const RoofOrigin roofs = PrepareRoofs(*options, needs, **device);
    return FamilyFlags::Opened{*std::move(device), roofs};
  };
  if (const auto answer = AnswerFlags(options->given, options->format, open)) {
    if (!answer->ok()) return Refuse(answer->status());
    std::cout << **answer;
    return Answered();
  }
  const absl::StatusOr<std::vector<PlannedCase>> plan = MakePlan(Families(), *options);
  if (!plan.ok()) return Refuse(plan.status());
  if (options->list_tests) {
    std::cout << ListCases(*plan, options->list_json);
    return Answered();
  }
  if (absl::Status status = CheckFlags(options->given, *plan); !status.ok()) return Refuse(status);
  if (place->restarts > 0) {
    if (absl::Status status = ContinueAfterRestart(*options); !status.ok()) return Refuse(status);
  }
  if (place->rank > 0) return options->doctor ? EXIT_SUCCESS : FollowRankZero(*options, *plan, *place);
  if (!options->doctor) {
    if (absl::Status status = PrepareResults(*options); !status.ok()) return Refuse(status);
  }
  if (absl::Status status = CheckOutputNames(*options); !status.ok()) return Refuse(status);
  AtomicFile list;
  if (!options->written_to.empty()) {
    if (absl::Status status = list.Open(options->written_to); !status.ok()) return Refuse(status);
  }
  for (const std::string& folder : {options->profile.folder, options->memory_snapshot}) {
    if (folder.empty()) continue;
    if (absl::Status status = PrepareProfileFolder(folder); !status.ok()) return Refuse(status);
  }
  options->contract = ContractOf(DescribeFamilies(FamiliesOf(*plan))).dump();
  SharedState state(plan->size());
  const bool is_launched = place->launcher != ranks::Launcher::kNone;
  if (is_launched) {
    if (absl::Status status = CheckLaunched(*options); !status.ok()) return Refuse(status);
  }
  // The other ranks of a launcher are not other programs.
  if (g_pressure && !is_launched) options->pressure = hardware::PressureText(*g_pressure, ThreadsOf(*options), {});
  if (!options->supervise || options->doctor || is_launched) {
    const NotedSignals noted(state, /*supervised=*/false);
    const int status = OpenAndRun(*options, *plan, options->journal, state, *place);
    return options->doctor ? status : Conclude(*options, state, list, status);
  }
  if (!options->results.empty() && !options->given.contains("case_timeout")) {
    options->case_timeout = kLongestUnwatchedCase;
  }
  const pid_t parent = getpid();
  const int status = RunSupervised(*options, *plan, state);
  return getpid() == parent ? Conclude(*options, state, list, status) : status;
} catch (...) {
  return Refuse(OutsideOfACase());
}

void Leave(int status) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const bool has_driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  if (!has_driver && std::getenv("LD_PRELOAD") == nullptr) {
    std::cout.flush();
    std::fflush(nullptr);
    _exit(status);
  }
#endif
  std::exit(status);
}

}  // namespace roofbench
