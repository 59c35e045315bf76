// SPDX-License-Identifier: Apache-2.0
// How long LibTorch's operators make the host wait for a device.
#pragma once

#include <functional>

namespace roofbench {

// A function that calls a step and returns the seconds that the host spent, on this thread, in operators that return
// results of the device to it: a number, a tensor, a shape. Every operator of the step becomes slower. `host_seconds`
// replaces the steady clock in tests.
std::function<double(const std::function<void()>& step)> HostWaits(std::function<double()> host_seconds);

}  // namespace roofbench
