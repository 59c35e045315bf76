// SPDX-License-Identifier: Apache-2.0
// The memory streams on a GPU: the seam between GpuRoofMeter and CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/hardware/roofs/streams.h"

namespace roofbench::hardware {

// One launch of a stream's kernel over `bytes` bytes (a multiple of 64, both pointers 64-byte aligned), `repeat` times
// over. A read adds the sum of all 64-bit words, modulo 2^64, to the word at `to` once per repeat; an update adds one
// to every 64-bit word of `to` each time; a write stores kWritePattern. An update and a write ignore `from`.
struct GpuPass {
  StreamKind kind = StreamKind::kRead;
  int variant = 0;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  int repeat = 1;
};

// Errors of the device are thrown as std::runtime_error.
class GpuStreams {
 public:
  virtual ~GpuStreams() = default;

  // The ways to run a stream, by their names.
  virtual std::span<const std::string_view> variants() const = 0;

  // Memory of the device, 64-byte aligned; nullptr if there is none. It bypasses LibTorch's allocator, so that a probe
  // neither empties nor fills its cache.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* memory) = 0;
  virtual void Upload(std::byte* to, std::span<const uint64_t> words) = 0;
  virtual void Download(std::span<uint64_t> words, const std::byte* from) = 0;

  virtual void Enqueue(const GpuPass& pass) = 0;
  // Device seconds of the passes one after another, after a short sleep, between two events. Waits for the device.
  virtual double Seconds(std::span<const GpuPass> passes) = 0;
};

}  // namespace roofbench::hardware
