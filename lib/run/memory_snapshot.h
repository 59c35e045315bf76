// SPDX-License-Identifier: Apache-2.0
// The memory of a case, allocation by allocation: from its build through some steps, and what is written of it.
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

// Records from its construction, which is before the case is built, to Finish. It slows allocation down: no step that
// it sees is a sample.
class MemorySnapshot {
 public:
  // `steps`: of the case, in all. The device must outlive it.
  MemorySnapshot(Device& device, int64_t steps);
  MemorySnapshot(const MemorySnapshot&) = delete;
  MemorySnapshot& operator=(const MemorySnapshot&) = delete;
  ~MemorySnapshot();

  // For the scope that the case is built in; empty where the device's own allocator tells.
  observe::PeakMemory::Listener Listener();
  // Runs a step, and notes its phases.
  void Step(const Case& one);
  // Runs the steps that are left, and ends the recording. `shared_bytes`: of operands that earlier cases allocated.
  void Finish(const Case& one, double shared_bytes);

  // Unavailable before Finish, or where the file cannot be written: with the path, the reason and the way out.
  // `outcome` has the counters. The file is <stem of the case>.pickle.
  absl::Status Write(const std::string& folder, const Outcome& outcome) const;
  // Without what was allocated and freed again before the first step.
  const observe::MemoryHistory& history() const { return history_; }

 private:
  struct Recording;

  Device& device_;
  const int64_t steps_;
  std::unique_ptr<Recording> recording_;  // until Finish
  bool is_finished_ = false;
  observe::MemoryHistory history_;
};

}  // namespace roofbench
