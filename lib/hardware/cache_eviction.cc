// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/cache_eviction.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "lib/hardware/roofs/bursts.h"
#include "lib/kernels/simd/isa.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/timing/statistics.h"

#if ROOFBENCH_X86
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace roofbench::hardware {
namespace {

constexpr std::size_t kLineBytes = 64;
// Twice a cache, so that a line of the scratch has left the cache before it is written again; a virtual machine has at
// most a part of a larger cache.
constexpr double kScratchCaches = 2;
constexpr double kLeastScratchBytes = 1 << 20;
constexpr double kMostScratchBytes = 128 << 20;
constexpr int kTrials = 5;

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

// The bytes by which an address exceeds a multiple of `alignment`.
std::size_t Misalignment(const std::byte* address, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment;
}

// A range that was allocated once may have been returned to the system since.
bool IsMapped(MemoryRange range) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = Misalignment(range.data, page);
  std::byte* begin = const_cast<std::byte*>(range.data) - before;
  return msync(begin, before + range.bytes, MS_ASYNC) == 0;  // no effect, but fails on a hole
}

// Calls `use` with each thread's share of every range that is still mapped.
template <typename Use>
void OnParts(std::span<const MemoryRange> ranges, int threads, Use use) {
  kernels::ThreadPool(threads).OnEach([&](int thread) {
    for (const MemoryRange& range : ranges) {
      const kernels::Range own = kernels::Share(static_cast<int64_t>(range.bytes), kLineBytes, thread, threads);
      const MemoryRange part = {range.data + own.begin, static_cast<std::size_t>(own.size())};
      if (part.bytes > 0 && IsMapped(part)) use(part);
    }
  });
}

// Calls `touch` with a byte of each line of the ranges.
template <typename Touch>
void OnLines(std::span<const MemoryRange> ranges, int threads, Touch touch) {
  OnParts(ranges, threads, [&](MemoryRange part) {
    for (std::size_t at = 0; at < part.bytes; at += kLineBytes) touch(part.data + at);
  });
}

void Modify(std::byte* byte) {
  volatile std::byte& line = *byte;
  line = line;  // a store of the same value also marks the line as modified
}

double SecondsOfEviction(const CacheEvictor& evictor, std::span<const MemoryRange> ranges) {
  const double begin = WallSeconds();
  evictor.Evict(ranges);
  return WallSeconds() - begin;
}

// A range may have been freed, but not given back to the system, since the case allocated it: its lines are still
// lines.
__attribute__((no_sanitize("address"))) void Load(const std::byte* byte) {
  static_cast<void>(*static_cast<const volatile std::byte*>(byte));
}

// The extra seconds that modified lines of the ranges in the caches add to an eviction.
double ExtraSecondsOfModified(const CacheEvictor& evictor, std::span<const MemoryRange> ranges, int threads) {
  const double modified = SecondsOfEviction(evictor, ranges);
  OnLines(ranges, threads, Load);
  return std::max(0.0, modified - SecondsOfEviction(evictor, ranges));
}

}  // namespace

void EvictLines(MemoryRange range) {
  if (range.bytes == 0) return;
  FlushLines(range.data - Misalignment(range.data, kLineBytes), range.data + range.bytes);
}

std::size_t CacheEvictor::Evict(std::span<const MemoryRange> ranges) const {
  std::atomic<std::size_t> evicted = 0;
  OnParts(ranges, threads_, [&](MemoryRange part) {
    EvictLines(part);
    evicted += part.bytes;
  });
  return evicted;
}

double CacheEvictor::EvictAndEstimateModified(std::span<const MemoryRange> ranges) {
  const double extra = ExtraSecondsOfModified(*this, ranges, threads_);
  const double seconds = WriteBackSeconds();
  return seconds > 0 ? extra / seconds : 0;
}

double CacheEvictor::ModifiedBytesOf(const std::function<void()>& step,
                                     const std::function<std::vector<MemoryRange>()>& prepare, double written,
                                     timing::Clock& clock) {
  constexpr int kModifiedTrials = 5;
  constexpr double kLongStep = 0.1;  // seconds
  constexpr double kNegligible = 0.1;
  const double most = std::min(written, cache_bytes_);
  if (most <= 0) return 0;
  std::vector<double> bytes;
  for (int trial = 0; trial < kModifiedTrials; ++trial) {
    const std::vector<MemoryRange> operands = prepare();
    Evict(operands);
    const double begin = clock.HostSeconds();
    step();
    if (clock.HostSeconds() - begin > kLongStep) return 0;
    bytes.push_back(EvictAndEstimateModified(operands));
  }
  const double modified = std::min(timing::Median(bytes), most);
  return modified > kNegligible * most ? modified : 0;
}

double CacheEvictor::WriteBackSeconds() {
  if (write_back_seconds_) return *write_back_seconds_;
  ScratchLines();
  std::vector<double> seconds;
  const MemoryRange range = {scratch_.data(), scratch_.size() / 4};  // half a cache
  for (int trial = 0; trial < kTrials; ++trial) {
    OnLines(std::span(&range, 1), threads_, [](const std::byte* line) { Modify(const_cast<std::byte*>(line)); });
    seconds.push_back(ExtraSecondsOfModified(*this, std::span(&range, 1), threads_) / static_cast<double>(range.bytes));
  }
  return write_back_seconds_.emplace(timing::Median(seconds));
}

std::size_t CacheEvictor::ScratchLines() {
  if (scratch_.size() == 0) {
    const double wanted = std::clamp(kScratchCaches * cache_bytes_, kLeastScratchBytes, kMostScratchBytes);
    scratch_ = HugeBuffer(static_cast<std::size_t>(wanted), threads_);
  }
  return scratch_.size() / kLineBytes / static_cast<std::size_t>(threads_);
}

template <typename Touch>
std::size_t CacheEvictor::TouchScratch(double bytes, Touch touch) {
  if (bytes <= 0) return 0;
  const std::size_t lap = ScratchLines();
  const auto lines = static_cast<std::size_t>(std::min(bytes / kLineBytes / threads_, static_cast<double>(lap)));
  std::atomic<std::size_t> touched = 0;
  kernels::ThreadPool(threads_).OnEach([&](int thread) {
    std::byte* const own = scratch_.data() + static_cast<std::size_t>(thread) * lap * kLineBytes;
    for (std::size_t line = 0; line < lines; ++line) touch(own + (cursor_ + line) % lap * kLineBytes);
    touched += lines * kLineBytes;
  });
  cursor_ = (cursor_ + lines) % lap;
  return touched;
}

std::size_t CacheEvictor::EvictAndRefill(std::span<const MemoryRange> ranges, double modified_bytes) {
  const double room = std::min(static_cast<double>(Evict(ranges)), cache_bytes_);
  return TouchScratch(room - modified_bytes, Load) + TouchScratch(modified_bytes, Modify);
}

}  // namespace roofbench::hardware
