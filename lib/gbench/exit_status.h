// SPDX-License-Identifier: Apache-2.0
// What the program says when it ends.
#pragma once

#include <iostream>
#include <string>

#include "absl/status/status.h"

namespace roofbench {

inline constexpr int kExitFailed = 1;    // a case, or an output
inline constexpr int kExitRefused = 2;   // before anything ran
inline constexpr int kExitSignal = 128;  // and the signal's number

inline int Refuse(const absl::Status& status) {
  std::cerr << "roofbench: " << std::string(status.message()) << '\n';
  return kExitRefused;
}

}  // namespace roofbench
