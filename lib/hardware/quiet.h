// SPDX-License-Identifier: Apache-2.0
// Waits until other programs leave the processors alone.
#pragma once

#include <functional>

namespace roofbench::hardware {

// Share of the processors' time that other programs and the hypervisor took over the next `seconds`; 0 where the system
// does not report it.
double OthersShare(double seconds);

// Calls `share`, each time over one second, until it is small or `seconds` have passed. Returns whether the machine
// became quiet.
bool WaitUntilQuiet(double seconds, const std::function<double(double seconds)>& share = OthersShare);

}  // namespace roofbench::hardware
