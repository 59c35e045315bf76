// SPDX-License-Identifier: Apache-2.0
// How threads wait for each other.
#pragma once

namespace roofbench::kernels {

// OpenMP's variable for its threads. SpinBarrier follows it, too.
inline constexpr char kWaitPolicy[] = "OMP_WAIT_POLICY";

// Whether it is "passive": a thread that waits leaves its processor to others.
bool YieldsWhileWaiting();

}  // namespace roofbench::kernels
