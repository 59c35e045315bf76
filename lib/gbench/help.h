// SPDX-License-Identifier: Apache-2.0
// The text of --help.
#pragma once

#include <string>

namespace roofbench {

// Flags by group, examples, exit status.
std::string HelpText();

}  // namespace roofbench
