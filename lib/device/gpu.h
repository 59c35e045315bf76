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
  // Launches the work. `mark` makes the marks that were made during the recording, in the same order; the device takes
  // them where its work reaches that point.
  virtual void Replay(const std::function<void()>& mark) = 0;
};

// Errors of the device are thrown as std::runtime_error or c10::Error.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuFacts& facts() const = 0;
  // Bytes that can still be allocated, including those that LibTorch's allocator holds but does not use.
  virtual double FreeMemoryBytes() const = 0;
  // Returns to the driver the memory that LibTorch's allocator holds but does not use.
  virtual void EmptyCache() = 0;
  // Peak bytes of LibTorch's allocator since the last ResetPeak.
  virtual double PeakBytes() const = 0;
  virtual void ResetPeak() = 0;
  // Bytes that recorded graphs hold outside of tensors: the workspace of their launches.
  virtual double GraphBytes() const = 0;
  // Start records the events of LibTorch's allocator from now on, keeping the last `most_events`, each with the result
  // of `site` at that moment, on any thread. Finish ends the recording and returns the events on this GPU and its
  // segments. Times are of the system clock.
  virtual void StartMemoryHistory(std::string (*site)(), std::size_t most_events) = 0;
  virtual observe::MemoryHistory FinishMemoryHistory() = 0;
  virtual void Synchronize() = 0;

  // Events on LibTorch's current stream.
  virtual std::unique_ptr<timing::EventQueue> NewEventQueue() const = 0;
  virtual hardware::GpuStreams& streams() = 0;
  virtual void Zero(std::byte* memory, std::size_t bytes) = 0;
  // Enqueues one busy thread for about `seconds` (at most 0.1).
  virtual void Spin(double seconds) = 0;

  // Records the work that `enqueue` puts on the stream, after calling it at least once for real. Inside, `mark` must be
  // called at the ends of phases. An exception (out of memory, a step that waits for the device) leaks nothing.
  using Enqueue = std::function<void(const std::function<void()>& mark)>;
  virtual std::unique_ptr<GpuGraph> Record(const Enqueue& enqueue) = 0;

  // For kernels that the CUDA part exports: LibTorch's current stream (a cudaStream_t), and the export with this name,
  // nullptr if it does not exist.
  virtual void* Stream() const = 0;
  virtual const void* Export(const std::string& symbol) const = 0;
};

// The table that the module exports under kGpuModuleSymbol. Add members at its end; `version` guards against a module
// of another build.
struct GpuModule {
  int version;
  // The number of devices that the driver shows; negative on failure, with the reason in `why`.
  int (*count)(std::string* why);
  // nullptr on failure, with the reason in `why`.
  Gpu* (*open)(int index, std::string* why);
};
inline constexpr int kGpuModuleVersion = 3;
inline constexpr char kGpuModuleSymbol[] = "roofbench_gpu_module";
inline constexpr char kGpuModuleFile[] = "libroofbench_cuda.so";

}  // namespace roofbench
