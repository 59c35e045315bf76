// SPDX-License-Identifier: Apache-2.0
// Records each allocation of a case from its build through some steps, and writes the history to a file.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/observe/memory/memory_history.h"
#include "lib/observe/peak_memory.h"
#include "lib/results/outcome.h"
#include "lib/suite/case.h"

namespace roofbench {

// Records from construction, before the case is built, until Finish. Recording slows allocation down, so recorded steps
// are never samples.
class MemorySnapshot {
 public:
  // `steps`: total steps of the case. The device must outlive the snapshot.
  MemorySnapshot(Device& device, int64_t steps);
  MemorySnapshot(const MemorySnapshot&) = delete;
  MemorySnapshot& operator=(const MemorySnapshot&) = delete;
  ~MemorySnapshot();

  // For the scope in which the case is built; empty if the device's own allocator reports allocations.
  observe::PeakMemory::Listener Listener();
  // Runs a step and records its phases.
  void Step(const Case& one);
  // Runs the remaining steps and ends the recording. `shared_bytes`: size of operands that earlier cases allocated.
  void Finish(const Case& one, double shared_bytes);

  // Call it after Finish. Returns Unavailable with the path, the reason and the remedy if the file cannot be written.
  // `outcome` provides the counters. The file is <stem of the case>.pickle.
  absl::Status Write(const std::string& folder, const Outcome& outcome) const;
  // Excludes memory that was allocated and freed again before the first step.
  const observe::MemoryHistory& history() const { return history_; }

 private:
  struct Recording;

  Device& device_;
  const int64_t steps_;
  std::unique_ptr<Recording> recording_;  // until Finish
  observe::MemoryHistory history_;
};

}  // namespace roofbench
