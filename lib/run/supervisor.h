// SPDX-License-Identifier: Apache-2.0
// Runs the suite in a child process, so that a case that ends its process does not end the run.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "lib/run/shared_state.h"

namespace roofbench {

struct Supervision {
  double case_timeout = 0;  // limit per case in seconds; 0: none
  // The run, in a child. Its return value is the child's exit status.
  std::function<int()> run;
  // Creates the row of a case that ended its process or hung; the next child continues with the following case. Called
  // by the parent.
  std::function<absl::Status(const RunningCase& running, const std::string& reason)> fail;
};

// Forks a child, waits for its end or for a case's deadline, and forks another after a hang, a crash, or a request.
// Must be called before the process has a second thread: a child starts as a copy of this one, with all libraries
// loaded. Returns in the parent, with the exit status of the run, and in every child, with the return value of `run`.
//
// A second crash outside of any case ends the run. SIGINT, SIGTERM and SIGHUP are recorded in `state`, which the run
// polls; a second signal ends both processes at once. The end of the parent, for any reason, ends the child.
int Supervise(SharedState& state, const Supervision& supervision);

// During its lifetime, those signals are recorded in `state`; a second signal ends the process at once unless a parent
// handles that. Afterwards they have no effect, because the run is over. An ignored SIGHUP stays ignored, so that a run
// under nohup continues.
class NotedSignals {
 public:
  NotedSignals(SharedState& state, bool supervised);
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
  ~NotedSignals();
};

}  // namespace roofbench
