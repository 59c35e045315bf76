// SPDX-License-Identifier: Apache-2.0
// Exit statuses of the program.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "lib/base/process.h"
#include "lib/base/text.h"

namespace roofbench {

inline constexpr int kExitFailed = 1;    // a case or an output failed
inline constexpr int kExitRefused = 2;   // refused before anything ran
inline constexpr int kExitSignal = 128;  // plus the signal's number

inline int Refuse(const absl::Status& status) {
  std::cerr << ProgramName() << ": " << Printable(std::string(status.message())) << '\n';
  return kExitRefused;
}

// Exit status of a program that printed an answer instead of running cases.
inline int Answered() {
  if (std::cout.flush()) return EXIT_SUCCESS;
  std::cerr << ProgramName() << ": cannot write to standard output\n";
  return kExitFailed;
}

}  // namespace roofbench
