// SPDX-License-Identifier: Apache-2.0
// One GPU as the program needs it: the seam between GpuDevice and CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "lib/hardware/roofs/gpu_streams.h"
#include "lib/observe/memory/memory_history.h"
#include "lib/timing/event_clock.h"

namespace roofbench {

struct GpuFacts {
  std::string name;  // as the driver reports it
  int index = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  double l2_bytes = 0;
  double memory_bytes = 0;
  std::string pci_bus_id;   // "0000:65:00.0"
  std::string cuda_driver;  // newest CUDA release that the driver knows: "13.0"
  std::string cuda_runtime;
};

// Work that is recorded once and then launched as a whole.
class GpuGraph {
 public:
  virtual ~GpuGraph() = default;
  // Launches the work. `mark` makes the marks that were made while it was recorded, in the same order; they are taken
  // on the device where the work has come to that point.
  virtual void Replay(const std::function<void()>& mark) = 0;
};

// Errors of the device are thrown as std::runtime_error or c10::Error.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuFacts& facts() const = 0;
  // Bytes that can still be allocated, those that LibTorch's allocator holds and does not use included.
  virtual double FreeMemoryBytes() const = 0;
  // Gives the memory that LibTorch's allocator holds and does not use back to the driver.
  virtual void EmptyCache() = 0;
  // Peak bytes of LibTorch's allocator since the last ResetPeak.
  virtual double PeakBytes() const = 0;
  virtual void ResetPeak() = 0;
  // Bytes that recorded graphs hold and that are no tensor's: what their launches work in.
  virtual double GraphBytes() const = 0;
  // Records what LibTorch's allocator does from now on, the last `most_events` of it, each with what `site` says at
  // that moment, on any thread. Then ends that: what was recorded on this GPU, and its segments. Times are of the
  // system's clock.
  virtual void StartMemoryHistory(std::string (*site)(), std::size_t most_events) = 0;
  virtual observe::MemoryHistory FinishMemoryHistory() = 0;
  virtual void Synchronize() = 0;

  // Events on the stream that LibTorch works on.
  virtual std::unique_ptr<timing::EventQueue> NewEventQueue() const = 0;
  virtual hardware::GpuStreams& streams() = 0;
  virtual void Zero(std::byte* memory, std::size_t bytes) = 0;
  // Enqueues about `seconds` (at most 0.1) of one busy thread.
  virtual void Spin(double seconds) = 0;

  // Records what `enqueue` puts on the stream, after calling it once or more for real. Inside, `mark` must be called at
  // the ends of phases. Whatever it throws (out of memory, a step that waits for the device) leaves nothing behind.
  using Enqueue = std::function<void(const std::function<void()>& mark)>;
  virtual std::unique_ptr<GpuGraph> Record(const Enqueue& enqueue) = 0;

  // For kernels that the CUDA part exports: the stream that LibTorch works on, now (a cudaStream_t), and what is
  // exported under this name, nullptr if nothing is.
  virtual void* Stream() const = 0;
  virtual const void* Export(const std::string& symbol) const = 0;
};

// What the module exports under kGpuModuleSymbol. Grows at its end; `version` guards against a module of another build.
struct GpuModule {
  int version;
  // Devices that the driver shows; a negative count means failure, with the reason in `why`.
  int (*count)(std::string* why);
  // nullptr means failure, with the reason in `why`.
  Gpu* (*open)(int index, std::string* why);
};
inline constexpr int kGpuModuleVersion = 3;
inline constexpr char kGpuModuleSymbol[] = "roofbench_gpu_module";
inline constexpr char kGpuModuleFile[] = "libroofbench_cuda.so";

}  // namespace roofbench
