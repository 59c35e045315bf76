// SPDX-License-Identifier: Apache-2.0
// A case with its operands, checked and ready to be sampled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/run/memory_snapshot.h"
#include "lib/run/rank_team.h"
#include "lib/run/run_options.h"
#include "lib/suite/case.h"
#include "lib/suite/check.h"
#include "lib/suite/plan.h"

namespace roofbench {

struct BuiltCase {
  // The copies over which a cold case of a GPU rotates; otherwise one. Only the first is checked, on behalf of all.
  std::vector<Case> copies;
  // The copies leave each other in the last-level cache, which the device displaces before one's turn comes again.
  bool displaces = false;
  // Evicted from the caches before each step of a cold case; empty if copies rotate or caches are warm.
  std::vector<hardware::MemoryRange> operands;
  // Of the first, as the checked step left them: operands that nothing changes, and those that only checks change.
  OperandSample read;
  OperandSample changing;
  double check_seconds = 0;      // that the check of the first took; 0: not checked
  double unseen = 0;             // by that check: see CheckCase
  double peak_memory_bytes = 0;  // of one step, including state that persists across steps; 0: not known

  const Case& first() const { return copies.front(); }
  // The copy that a step, counted from 0, runs on.
  const Case& CopyOf(int64_t step) const { return copies[static_cast<std::size_t>(step) % copies.size()]; }
};

// Of the operands that checks change, and no step: one that is also part of the result is left out, and all of a case
// that prepares steps, which may bring them back.
OperandSample SampleOfChanging(const Case& one, std::mt19937_64& random);

// Builds the case, runs a step, compares its result with the reference, and makes the copies. A case that sets its own
// warm-up is only built, since any step would be one of those before its samples, unless it was `sampled` already.
// `snapshot`, if given, records the build, that step and further steps. The ranks of `team` build it in step.
// Cancelled where `interrupted` says so between its steps; of a team it is not asked.
absl::StatusOr<BuiltCase> BuildCase(const PlannedCase& planned, const RunOptions& options, Device& device,
                                    MemorySnapshot* snapshot = nullptr, bool sampled = false, RankTeam* team = nullptr,
                                    const std::function<bool()>& interrupted = {});

}  // namespace roofbench
