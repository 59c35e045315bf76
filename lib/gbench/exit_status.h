// SPDX-License-Identifier: Apache-2.0
// What the program says when it ends.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "lib/base/process.h"
#include "lib/base/text.h"

namespace roofbench {

inline constexpr int kExitFailed = 1;    // a case, or an output
inline constexpr int kExitRefused = 2;   // before anything ran
inline constexpr int kExitSignal = 128;  // and the signal's number

inline int Refuse(const absl::Status& status) {
  std::cerr << ProgramName() << ": " << Printable(std::string(status.message())) << '\n';
  return kExitRefused;
}

// The exit status of a program that has printed all that was asked for.
inline int Answered() {
  if (std::cout.flush()) return EXIT_SUCCESS;
  std::cerr << ProgramName() << ": cannot write to standard output\n";
  return kExitFailed;
}

}  // namespace roofbench
