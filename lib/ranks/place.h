// SPDX-License-Identifier: Apache-2.0
// Which rank this process is, who started it, and where the ranks meet; and the processes of a group that we start.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace roofbench::ranks {

enum class Launcher { kNone, kOurs, kTorchrun, kSlurm };

struct Place {
  Launcher launcher = Launcher::kNone;
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among those on this machine
  std::string host = "127.0.0.1";
  uint16_t port = 0;    // of a serving rank: 0 lets the system choose
  bool serves = false;  // the board, to the others
  int restarts = 0;     // of the whole group, by torchrun
};

// The value of an environment variable; nullptr if it is not set.
using Variable = std::function<const char*(const char* name)>;

// From the environment that torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), srun (SLURM_PROCID,
// SLURM_LOCALID, SLURM_NTASKS and the same MASTER_…) or RankProcesses sets. Without a local rank, all are on this
// machine. InvalidArgument names a variable that is missing or invalid.
absl::StatusOr<Place> PlaceOfThisProcess(const Variable& variable);

// Ties a process that RankProcesses started to its parent: it ends with it, and leaves the signals of a terminal to it.
// False if the parent has ended already.
bool FollowParent(const Variable& variable);

// Further processes of this program as the ranks from 1 of a group on this machine, with this one as rank 0. They end
// with this object at the latest, and with this process.
class RankProcesses {
 public:
  // `arguments`: the program's name and its flags. They meet at `port`, and print to this process's standard error.
  static absl::StatusOr<std::unique_ptr<RankProcesses>> Start(int size, uint16_t port,
                                                              std::vector<std::string> arguments);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // The first rank that has ended, and how: "rank 1 was ended by SIGKILL". nullopt: all live.
  std::optional<std::string> Dead();

 private:
  RankProcesses() = default;

  std::vector<pid_t> pids_;  // of rank 1 and so on; 0: ended
  std::optional<std::string> dead_;
};

// CPU seconds that a process has used; 0 if it is not one of this user's.
double CpuSecondsOf(pid_t pid);

// Whether a process on this machine may run on a processor of this thread; true if that is unknown.
bool SharesProcessors(pid_t pid);

}  // namespace roofbench::ranks
