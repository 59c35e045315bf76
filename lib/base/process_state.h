// SPDX-License-Identifier: Apache-2.0
// What a case may change of its process, and the next one would run with.
#pragma once

#include <fenv.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
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
  sigset_t blocked_{};
  std::vector<Handler> handlers_;
  unsigned modes_ = 0;  // of rounding and denormals
  fenv_t arithmetic_{};
};

}  // namespace roofbench
