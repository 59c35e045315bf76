// SPDX-License-Identifier: Apache-2.0
// What the program calls itself when it speaks: others link this library under names of their own.
#pragma once

#include <string>

namespace roofbench {

// "roofbench" until it is set.
const std::string& ProgramName();

// Before anything is said, on one thread.
void SetProgramName(std::string name);

}  // namespace roofbench
