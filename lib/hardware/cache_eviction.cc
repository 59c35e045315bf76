// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/cache_eviction.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "lib/kernels/simd/isa.h"
#include "lib/kernels/threading/thread_pool.h"

#if ROOFBENCH_X86
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace roofbench::hardware {
namespace {

constexpr std::size_t kLineBytes = 64;
// Twice a cache, so that a line of the scratch has left the cache before it is written again; of a larger cache a
// virtual machine has a part at most.
constexpr double kScratchCaches = 2;
constexpr double kMostScratchBytes = 128 << 20;

#if ROOFBENCH_X86
bool HasFlushOpt() {
  static const bool has = [] {
    unsigned int eax = 0;
    unsigned int ebx = 0;
    unsigned int ecx = 0;
    unsigned int edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_CLFLUSHOPT) != 0;
  }();
  return has;
}

__attribute__((target("clflushopt"))) void FlushOpt(const std::byte* begin, const std::byte* end) {
  for (const std::byte* line = begin; line < end; line += kLineBytes) {
    _mm_clflushopt(const_cast<std::byte*>(line));
  }
  _mm_sfence();
}

void FlushLines(const std::byte* begin, const std::byte* end) {
  if (HasFlushOpt()) return FlushOpt(begin, end);
  for (const std::byte* line = begin; line < end; line += kLineBytes) _mm_clflush(line);
  _mm_mfence();
}
#elif defined(__aarch64__)
void FlushLines(const std::byte* begin, const std::byte* end) {
  uint64_t type = 0;
  asm("mrs %0, ctr_el0" : "=r"(type));
  const std::size_t line_bytes = std::size_t{4} << ((type >> 16) & 15);  // the smallest data line, in words of 4 bytes
  for (const std::byte* line = begin; line < end; line += line_bytes) asm volatile("dc civac, %0" : : "r"(line));
  asm volatile("dsb ish" : : : "memory");
}
#else
#error "This processor needs an instruction that evicts a cache line"
#endif

// A range that was allocated once may have been given back to the system since.
bool IsMapped(MemoryRange range) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(range.data) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(range.data) + range.bytes;
  return msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0;  // does nothing, but fails on a hole
}

}  // namespace

void EvictLines(MemoryRange range) {
  if (range.bytes == 0) return;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(range.data) / kLineBytes * kLineBytes;
  FlushLines(reinterpret_cast<const std::byte*>(begin), range.data + range.bytes);
}

std::size_t CacheEvictor::Evict(std::span<const MemoryRange> ranges) const {
  std::atomic<std::size_t> evicted = 0;
  kernels::ThreadPool(threads_).OnEach([&](int thread) {
    for (const MemoryRange& range : ranges) {
      const kernels::Range own = kernels::Share(static_cast<int64_t>(range.bytes), kLineBytes, thread, threads_);
      const MemoryRange part = {range.data + own.begin, static_cast<std::size_t>(own.size())};
      if (part.bytes == 0 || !IsMapped(part)) continue;
      EvictLines(part);
      evicted += part.bytes;
    }
  });
  return evicted;
}

void CacheEvictor::FillWithModifiedLines(double bytes) {
  if (bytes <= 0) return;
  if (scratch_.size() == 0) {
    const double wanted = std::clamp(kScratchCaches * cache_bytes_, double{kLineBytes} * threads_, kMostScratchBytes);
    scratch_ = HugeBuffer(static_cast<std::size_t>(wanted), threads_);
  }
  const std::size_t lap = scratch_.size() / kLineBytes / static_cast<std::size_t>(threads_);
  const auto lines = static_cast<std::size_t>(std::min(bytes / kLineBytes / threads_, static_cast<double>(lap)));
  kernels::ThreadPool(threads_).OnEach([&](int thread) {
    std::byte* const own = scratch_.data() + static_cast<std::size_t>(thread) * lap * kLineBytes;
    for (std::size_t line = 0; line < lines; ++line) {
      volatile std::byte& first = own[(cursor_ + line) % lap * kLineBytes];
      first = static_cast<std::byte>(line);
    }
  });
  cursor_ = (cursor_ + lines) % lap;
}

}  // namespace roofbench::hardware
