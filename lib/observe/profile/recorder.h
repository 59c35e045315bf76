// SPDX-License-Identifier: Apache-2.0
// Starts and stops Kineto, the profiler of LibTorch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/observe/profile/event.h"

namespace roofbench::observe {

// Records this thread (and those of autograd that work for it) from its construction to Finish, with our ranges. One at
// a time in a process. Slows every operator down by a microsecond or so: what runs meanwhile is no sample.
class Recorder {
 public:
  // `on_gpu`: kernels of a GPU, too.
  explicit Recorder(bool on_gpu);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  // Ends the recording; the second call and those after it give the same.
  const std::vector<ProfiledEvent>& Finish();

  // After Finish: puts a Chrome trace at `path`, whole or not at all, in place of what is there. Unavailable with the
  // path, the reason and the way out.
  absl::Status SaveTrace(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace roofbench::observe
