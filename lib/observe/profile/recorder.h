// SPDX-License-Identifier: Apache-2.0
// Records operators, our ranges and GPU kernels with Kineto, LibTorch's profiler; and measures operators without it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/observe/ranges.h"

namespace torch::autograd::profiler {
struct KinetoEvent;
}  // namespace torch::autograd::profiler

namespace roofbench::observe {

enum class EventKind { kOperator, kRange, kDeviceKernel };

struct ProfiledEvent {
  std::string name;
  EventKind kind = EventKind::kOperator;
  uint64_t thread = 0;  // of the host; for a device kernel, its stream
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string shapes = {};  // of tensor arguments: "[4, 8] [8]"
  double flops = 0;         // 0 if unknown
  double input_bytes = 0;   // of tensor arguments, each counted once; 0 if unknown
  // Autograd's number of an operator; its backward function has the same one.
  int64_t sequence = -1;
  bool backward = false;
  // For a device kernel, the `correlation` of the operator that launched it; 0 if there is none.
  uint64_t correlation = 0;
  std::string launch = {};  // "grid 4x1x1 block 128x1x1"

  int64_t duration_ns() const { return end_ns - start_ns; }
};

// nullopt unless the event is an operator, one of our ranges, or a kernel, copy or fill of a GPU.
std::optional<ProfiledEvent> ReadKinetoEvent(const torch::autograd::profiler::KinetoEvent& event);

// Records this thread, and the autograd threads that work for it, from construction to Finish. One at a time in a
// process. Slows every operator by about a microsecond: do not use recorded steps as samples.
class Recorder {
 public:
  // `on_gpu`: record GPU kernels, too.
  explicit Recorder(bool on_gpu);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  // Ends the recording. Further calls return the same events.
  const std::vector<ProfiledEvent>& Finish();

  // After Finish: writes a Chrome trace to `path` atomically, replacing an existing file. The error names the path, the
  // reason and a remedy.
  absl::Status SaveTrace(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Measures the time that this thread spends in operators and our kernels, from construction to destruction. It reads
// the clock twice for each outermost operator and stores nothing else, so the difference from a Recorder of the same
// step is the recording's own cost. One at a time on a thread; construct and destroy it outside any operator.
class OperatorClock {
 public:
  OperatorClock();
  OperatorClock(const OperatorClock&) = delete;
  OperatorClock& operator=(const OperatorClock&) = delete;
  ~OperatorClock();

  double seconds() const;

 private:
  const RecordedRanges ranges_;
  uint64_t handle_;
};

}  // namespace roofbench::observe
