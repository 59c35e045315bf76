// The memory streams that define a machine's bandwidth roof: read, copy, update in place and write, in several
// variants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/hardware/isa.h"

namespace roofbench::hardware {

enum class StreamKind { kRead, kCopy, kUpdate, kWrite };
std::string_view Name(StreamKind kind);  // "read", "copy", "update", "write"

// What a write stores into every 64-bit word.
inline constexpr uint64_t kWritePattern = 0x9e3779b97f4a7c15;

// One way to run a stream over `bytes` bytes (a multiple of 64, both pointers 64-byte aligned) on the calling thread.
// A read ignores `to` and returns the sum of all 64-bit words modulo 2^64, so that nothing can be left out. An update
// adds one to every 64-bit word of `to`; it and a write ignore `from`. All but reads return 0.
struct StreamVariant {
  StreamKind kind;
  std::string_view name;  // "plain", "prefetch", "streaming", …
  uint64_t (*run)(std::byte* to, const std::byte* from, std::size_t bytes);
};

// The variants of all kinds with the vectors of one extension; none if this processor lacks it.
std::span<const StreamVariant> StreamVariants(Isa isa);
// The same with the widest vectors of this processor.
std::span<const StreamVariant> StreamVariants();

// Traffic that `bytes` bytes of a stream cause: twice for copy and update, once for read and write.
double StreamTraffic(StreamKind kind, double bytes);

// The part of a buffer of `bytes` bytes that belongs to one thread: an even split in 64-byte lines.
struct Part {
  std::size_t begin = 0;  // bytes
  std::size_t end = 0;
};
Part PartOf(std::size_t bytes, int thread, int threads);

// Runs a variant over a buffer split by PartOf over `threads` threads of the team. Returns the sum of what they return.
uint64_t RunStream(const StreamVariant& variant, std::byte* to, const std::byte* from, std::size_t bytes, int threads);

}  // namespace roofbench::hardware
