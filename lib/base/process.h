// SPDX-License-Identifier: Apache-2.0
// This process (its name and standard streams) and child processes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace roofbench {

// The name of the program in messages: "roofbench", unless a program that links this library sets its own.
const std::string& ProgramName();
// Call it before the first message, while there is one thread.
void SetProgramName(std::string name);

// Opens /dev/null for each closed standard stream: otherwise the next file that the program opens would get its number,
// and the output that is meant for the terminal. Call it before any file is opened. False if there is no /dev/null.
bool OpenStandardStreams();

// A write to a connection whose other end is closed then fails with EPIPE, instead of ending the process: of a library
// that writes to sockets without MSG_NOSIGNAL, as Gloo does. Where stdout or stderr is closed, as after `| head`,
// /dev/null takes its place and `closed` is called with the signal, in its handler; without one, the process ends.
// Leaves a disposition that was chosen already (Python ignores the signal).
void SurviveBrokenConnections(void (*closed)(int) = nullptr);

struct ChildResult {
  int exit_code = 0;   // 128 + the signal number if a signal ended it
  std::string output;  // stdout and stderr
};

// Runs a program to its end. `arguments` starts with the program: a path, or a name to find on PATH. NotFound if it
// cannot be started.
absl::StatusOr<ChildResult> RunChild(const std::vector<std::string>& arguments);

// How a child process ended, from its wait status: "ended with exit status 3", "crashed (SIGSEGV, Segmentation fault)".
std::string DescribeEnd(int wait_status);

// Called in a child: it ends when its parent does, and is the first that the system kills for memory, because the
// parent must report it. False if the parent has ended already.
bool BeSupervisedBy(pid_t parent);

}  // namespace roofbench
