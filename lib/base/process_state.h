// SPDX-License-Identifier: Apache-2.0
// What a case may change of its process, and the next one would run with.
#pragma once

#include <fenv.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace roofbench {

// The working folder, the mask of new files, limits of resources, blocked signals, the handlers of SIGINT, SIGTERM,
// SIGHUP and SIGPIPE, and the rounding and denormals of floating-point arithmetic, of the thread that makes it.
class ProcessState {
 public:
  ProcessState();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;
  ~ProcessState();

  // Brings back what has changed, and names it: "the working folder".
  std::vector<std::string> Restore() const;

  // How many threads that were started since then work on, which cannot be taken back. Pools spin for a moment after
  // their work: where there are such threads, it waits up to half a second for them. 0 where OpenMP is told to spin
  // longer, by OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME.
  std::size_t ThreadsAtWork() const;

 private:
  struct Limit {
    int resource;
    rlimit values;
  };
  struct Handler {
    int signal;
    struct sigaction action;
  };

  int folder_ = -1;  // -1: it could not be opened
  struct stat folder_facts_ {};
  mode_t mask_ = 0;
  std::vector<Limit> limits_;
  std::set<std::string> threads_;  // by number
  sigset_t blocked_{};
  std::vector<Handler> handlers_;
  unsigned modes_ = 0;  // of rounding and denormals
  fenv_t arithmetic_{};
};

}  // namespace roofbench
