// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/place.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace roofbench::ranks {
namespace {

constexpr char kRank[] = "ROOFBENCH_RANK";
constexpr char kSize[] = "ROOFBENCH_RANKS";
constexpr char kPort[] = "ROOFBENCH_RANK_PORT";
constexpr char kParent[] = "ROOFBENCH_RANK_PARENT";
constexpr char kOurPrefix[] = "ROOFBENCH_RANK";

// The variables by which a launcher gives a process its place.
struct Names {
  Launcher launcher;
  const char* title;
  const char* rank;
  const char* local_rank;
  const char* size;
  const char* host;  // nullptr: this machine
  const char* port;
};

constexpr Names kLaunchers[] = {
    {Launcher::kOurs, "this program", kRank, kRank, kSize, nullptr, kPort},
    {Launcher::kTorchrun, "torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
    {Launcher::kSlurm, "srun", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "MASTER_ADDR", "MASTER_PORT"}};

absl::StatusOr<int> NumberIn(const Variable& variable, const char* name, int least, int most, const Names& names) {
  const char* text = variable(name);
  if (text == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(names.rank, " is set, as ", names.title, " does, and ", name,
                                                   " is not: set it too, or unset ", names.rank));
  }
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least && number <= most) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(name, "=", text, " in the environment: expected a whole number from ", least, " to ", most));
}

absl::StatusOr<Place> PlaceBy(const Names& names, const Variable& variable) {
  constexpr int kMostRanks = 1 << 20;
  constexpr int kMostPort = 65535;
  constexpr int kMostRestarts = 1 << 20;
  constexpr char kRestarts[] = "TORCHELASTIC_RESTART_COUNT";
  Place place{.launcher = names.launcher};
  const absl::StatusOr<int> size = NumberIn(variable, names.size, 1, kMostRanks, names);
  if (!size.ok()) return size.status();
  const absl::StatusOr<int> rank = NumberIn(variable, names.rank, 0, *size - 1, names);
  if (!rank.ok()) return rank.status();
  if (*size == 1) return Place{};
  const absl::StatusOr<int> port = NumberIn(variable, names.port, 1, kMostPort, names);
  if (!port.ok()) return port.status();
  const bool has_local = variable(names.local_rank) != nullptr;
  const absl::StatusOr<int> local = has_local ? NumberIn(variable, names.local_rank, 0, *rank, names) : rank;
  if (!local.ok()) return local.status();
  place.rank = *rank;
  place.local_rank = *local;
  place.size = *size;
  place.port = static_cast<uint16_t>(*port);
  if (names.host != nullptr) place.host = variable(names.host);
  if (names.launcher == Launcher::kTorchrun && variable(kRestarts) != nullptr) {
    const absl::StatusOr<int> restarts = NumberIn(variable, kRestarts, 0, kMostRestarts, names);
    if (!restarts.ok()) return restarts.status();
    place.restarts = *restarts;
  }
  const char* agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_served = names.launcher == Launcher::kTorchrun && agent != nullptr && std::string_view(agent) == "True";
  place.serves = *rank == 0 && !is_served;
  return place;
}

std::string HowItEnded(int status) {
  if (WIFEXITED(status)) return absl::StrCat("ended with exit status ", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return absl::StrCat("was ended by SIG", name == nullptr ? "NAL" : name);
}

// The environment of a rank: this process's, and its place.
std::vector<std::string> EnvironmentOf(int rank, int size, uint16_t port) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, kOurPrefix)) variables.emplace_back(*entry);
  }
  variables.push_back(absl::StrCat(kRank, "=", rank));
  variables.push_back(absl::StrCat(kSize, "=", size));
  variables.push_back(absl::StrCat(kPort, "=", port));
  variables.push_back(absl::StrCat(kParent, "=", getpid()));
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<Place> PlaceOfThisProcess(const Variable& variable) {
  for (const Names& names : kLaunchers) {
    if (variable(names.rank) == nullptr) continue;
    // Containers and batch scripts have such variables without a launcher.
    if (names.host != nullptr && variable(names.host) == nullptr) continue;
    return PlaceBy(names, variable);
  }
  return Place{};
}

bool FollowParent(const Variable& variable) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* text = variable(kParent);
  int parent = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &parent) || getppid() != parent) return false;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  return true;
}

absl::StatusOr<std::unique_ptr<RankProcesses>> RankProcesses::Start(int size, uint16_t port,
                                                                    std::vector<std::string> arguments) {
  std::unique_ptr<RankProcesses> processes(new RankProcesses());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  // Linux gives each session an equal share of the processors (sched_autogroup), and torchrun each rank a session.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  int error = 0;
  for (int rank = 1; rank < size && error == 0; ++rank) {
    std::vector<std::string> environment = EnvironmentOf(rank, size, port);
    pid_t pid = 0;
    error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, Pointers(arguments).data(),
                        Pointers(environment).data());
    if (error == 0) processes->pids_.push_back(pid);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return processes;
  return absl::UnavailableError(absl::StrCat("cannot start a process for a rank: ", std::strerror(error)));
}

RankProcesses::~RankProcesses() {
  for (const pid_t pid : pids_) {
    if (pid == 0) continue;
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

std::optional<std::string> RankProcesses::Dead() {
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    int status = 0;
    if (pids_[i] == 0 || waitpid(pids_[i], &status, WNOHANG) != pids_[i]) continue;
    pids_[i] = 0;
    if (!dead_) dead_ = absl::StrCat("rank ", i + 1, " ", HowItEnded(status));
  }
  return dead_;
}

double CpuSecondsOf(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

bool SharesProcessors(pid_t pid) {
  cpu_set_t mine{};
  cpu_set_t theirs{};
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 || sched_getaffinity(pid, sizeof theirs, &theirs) != 0) return true;
  CPU_AND(&mine, &mine, &theirs);
  return CPU_COUNT(&mine) > 0;
}

}  // namespace roofbench::ranks
