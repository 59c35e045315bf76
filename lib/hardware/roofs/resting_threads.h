// SPDX-License-Identifier: Apache-2.0
// Probes that do not compete with the pool of the function that was just measured.
#pragma once

#include <sys/types.h>

#include <functional>
#include <span>

#include "lib/hardware/roofs/bursts.h"
#include "lib/timing/sampler.h"

namespace roofbench::hardware {

void SleepSeconds(double seconds);

// Whether a thread of this process works, other than the calling one and `known`.
bool OthersRun(std::span<const pid_t> known = {});

// What the wait looks at.
struct Watched {
  std::function<bool()> others_run;
  std::function<double()> now = WallSeconds;
  std::function<void(double seconds)> sleep = SleepSeconds;
};

// A pool may spin between two calls of a function (OpenBLAS does for 25 ms), and would take a processor from a probe of
// all of them. Waits until the other threads of the process rest, but not for ever: one may have work of its own.
// False if they did not rest.
bool AwaitRest(const Watched& watched);
// The first call looks whether threads still run some milliseconds after the last step. If so, it and the later ones
// wait, as long as that helps.
timing::RoofProbe OnceThreadsRest(timing::RoofProbe probe, Watched watched);

}  // namespace roofbench::hardware
