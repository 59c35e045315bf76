// SPDX-License-Identifier: Apache-2.0
// The memory streams that define a machine's bandwidth roof: read, copy, update in place and write, in several
// variants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::hardware {

enum class StreamKind { kRead, kCopy, kUpdate, kWrite };
inline constexpr std::array<StreamKind, 4> kStreamKinds = {StreamKind::kRead, StreamKind::kCopy, StreamKind::kUpdate,
                                                           StreamKind::kWrite};
constexpr std::size_t Index(StreamKind kind) { return static_cast<std::size_t>(kind); }
constexpr std::string_view Name(StreamKind kind) {
  constexpr std::array<std::string_view, kStreamKinds.size()> kNames = {"read", "copy", "update", "write"};
  return kNames[Index(kind)];
}

// The value that a write stores into every 64-bit word.
inline constexpr uint64_t kWritePattern = 0x9e3779b97f4a7c15;

// One way to run a stream over `bytes` bytes (a multiple of 64, both pointers 64-byte aligned) on the calling thread. A
// read ignores `to` and returns the sum of all 64-bit words modulo 2^64, so that the compiler cannot drop a load. An
// update adds one to every 64-bit word of `to`; it and a write ignore `from`. All but reads return 0.
struct StreamVariant {
  StreamKind kind;
  std::string_view name;  // "plain", "prefetch", "streaming", …
  uint64_t (*run)(std::byte* to, const std::byte* from, std::size_t bytes);
};

// The variants of all kinds with the widest vectors of this processor.
std::span<const StreamVariant> StreamVariants();

// The first variant of a kind that has this name, or begins with it ("streaming, prefetch 4k"); nullptr if there is
// none.
const StreamVariant* FindStream(StreamKind kind, std::string_view name);

// A stream, and how to run it on a device.
struct StreamWay {
  StreamKind kind = StreamKind::kRead;
  std::string_view variant = {};  // as in FindStream; empty: the one that was measured to be fastest
  int threads = 0;                // of a processor; 0: all of the run
};

// Traffic that `bytes` bytes of a stream cause: twice for copy and update, once for read and write.
double StreamTraffic(StreamKind kind, double bytes);

// One thread's bytes of a buffer of `bytes` bytes (a multiple of 64): whole lines, as even as possible.
kernels::Range ThreadsBytes(std::size_t bytes, int thread, int threads);

// Runs a variant over a buffer; each of `threads` threads of the pool takes its own bytes. Returns the sum of their
// results.
uint64_t RunStream(const StreamVariant& variant, std::byte* to, const std::byte* from, std::size_t bytes, int threads);

}  // namespace roofbench::hardware
