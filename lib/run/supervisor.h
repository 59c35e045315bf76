// SPDX-License-Identifier: Apache-2.0
// Runs the suite in a child process, so that nothing which a case does to its process ends the run.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "lib/run/shared_state.h"

namespace roofbench {

struct Supervision {
  double case_timeout = 0;  // seconds that a case may take; 0: any time
  // The run, in a child. What it returns is the child's exit status.
  std::function<int()> run;
  // Makes the row of a case that ended its process, or hung; the next child goes on after it. Called by the parent.
  std::function<absl::Status(const RunningCase& running, const std::string& reason)> fail;
};

// Forks a child, waits for its end or for a case's deadline, and forks another after a hang, a crash, or the wish for
// one. Must be called before the process has a second thread: a child starts as a copy of this one, with all libraries
// loaded. Returns in the parent, with the exit status of the run, and in every child, with what `run` returned.
//
// A child that crashes outside of any case for the second time ends the run. SIGINT, SIGTERM and SIGHUP are noted in
// `state`, which the run polls; again, they end both processes at once. The end of the parent, however it comes, ends
// the child.
int Supervise(SharedState& state, const Supervision& supervision);

// While it lives, those signals are noted in `state`; again, they end the process at once unless a parent sees to that.
// After it they mean nothing any more: the run is over. SIGHUP is left alone where it is ignored: what runs under nohup
// goes on.
class NotedSignals {
 public:
  NotedSignals(SharedState& state, bool supervised);
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
  ~NotedSignals();
};

}  // namespace roofbench
