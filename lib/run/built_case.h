// SPDX-License-Identifier: Apache-2.0
// A case with its operands, proven right and ready to be sampled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/run/memory_snapshot.h"
#include "lib/run/run_options.h"
#include "lib/suite/case.h"
#include "lib/suite/check.h"
#include "lib/suite/plan.h"

namespace roofbench {

struct BuiltCase {
  // Those that a cold case of a GPU rotates over; else one. The first was checked, and tells what holds for all.
  std::vector<Case> copies;
  // What is evicted from the caches before each step of a cold case; empty where copies rotate, or caches are warm.
  std::vector<hardware::MemoryRange> operands;
  double peak_memory_bytes = 0;  // of one step, once all that lives from step to step is there; 0: not known

  const Case& first() const { return copies.front(); }
  // The one that a step runs on, counted from 0.
  const Case& CopyOf(int64_t step) const { return copies[static_cast<std::size_t>(step) % copies.size()]; }
};

// Builds the case, runs a step, compares its result (after `tamper`, if there is one) with the reference, and makes the
// copies. A case whose very first step belongs to the samples is built and no more. `snapshot`, if there is one, sees
// the build, that step and more of them.
absl::StatusOr<BuiltCase> BuildCase(const PlannedCase& planned, const RunOptions& options, Device& device,
                                    const Tamper& tamper, MemorySnapshot* snapshot = nullptr);

}  // namespace roofbench
