// SPDX-License-Identifier: Apache-2.0
// A device of our own for LibTorch that behaves towards the host as a GPU does and computes on the processor: its
// tensors cannot meet those of the CPU, its operators have CUDA's rules where they differ from the CPU's, launches and
// waits are counted, and work can be recorded and replayed. To LibTorch it is PrivateUse1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace roofbench::accelerator {

// Enters it into LibTorch at the first call.
at::Device TheDevice();

// Events since the start of the process.
struct Counts {
  int64_t launches = 0;  // of operators that work on elements
  int64_t synchronizations =
      0;  // the host waited: a number or a tensor came from the device, or a shape depended on one
  std::map<std::string, int64_t> operators = {};  // launches by name

  Counts operator-(const Counts& before) const;
};
const Counts& CountsNow();

// A kernel that is not a LibTorch operator, on device memory: runs it, or records it.
void Launch(const std::string& name, std::function<void()> kernel);

// Set the listeners for every launch and for every wait of the host, for tests with their own clock. nullptr: none.
void OnLaunch(std::function<void()> launch);
void OnWait(std::function<void()> wait);

// Operators recorded once, on the tensors that they were given and made.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void Replay() const = 0;
  virtual int64_t launches() const = 0;
};
// Calls `work` while the device records: nothing is done to memory that was there before, and what waits for the device
// throws c10::Error, as in a capture of CUDA.
std::unique_ptr<Recording> Record(const std::function<void()>& work);
// Launches recorded so far, inside Record.
int64_t RecordedLaunches();

}  // namespace roofbench::accelerator
