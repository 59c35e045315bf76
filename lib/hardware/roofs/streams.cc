// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/streams.h"

#include <algorithm>
#include <atomic>

#include "lib/kernels/simd/isa.h"
#include "lib/kernels/threading/thread_pool.h"

#if ROOFBENCH_X86
#include <immintrin.h>
#endif

namespace roofbench::hardware {
namespace {

constexpr std::size_t kLineBytes = 64;

#if ROOFBENCH_X86
// The string instructions: on newer processors, microcode selects the best protocol for memory.
uint64_t StringCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return 0;
}

uint64_t StringWrite(std::byte* to, const std::byte*, std::size_t bytes) {
  std::size_t words = bytes / sizeof(uint64_t);
  asm volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(kWritePattern) : "memory");
  return 0;
}

// Streaming stores are weakly ordered: later stores must not overtake them.
void StreamFence() { _mm_sfence(); }

#define ROOFBENCH_STREAM_STORES 1

namespace avx512 {
#define ROOFBENCH_TARGET __attribute__((target("avx512f")))
constexpr std::size_t kVectorBytes = 64;
template <typename Vector>
ROOFBENCH_TARGET inline void StreamStore(std::byte* to, const Vector& value) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<const __m512i&>(value));
}
#include "lib/hardware/roofs/stream_kernels.inc"
#undef ROOFBENCH_TARGET
}  // namespace avx512

namespace avx2 {
#define ROOFBENCH_TARGET __attribute__((target("avx2")))
constexpr std::size_t kVectorBytes = 32;
template <typename Vector>
ROOFBENCH_TARGET inline void StreamStore(std::byte* to, const Vector& value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<const __m256i&>(value));
}
#include "lib/hardware/roofs/stream_kernels.inc"
#undef ROOFBENCH_TARGET
}  // namespace avx2

#else
#define ROOFBENCH_STREAM_STORES 0
#endif

// The default target of every compiler: SSE2 or its equivalent.
namespace baseline {
#define ROOFBENCH_TARGET
constexpr std::size_t kVectorBytes = 16;
#if ROOFBENCH_STREAM_STORES
template <typename Vector>
inline void StreamStore(std::byte* to, const Vector& value) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<const __m128i&>(value));
}
#endif
#include "lib/hardware/roofs/stream_kernels.inc"
#undef ROOFBENCH_TARGET
}  // namespace baseline

#undef ROOFBENCH_STREAM_STORES

constexpr kernels::IsaVariant<std::span<const StreamVariant>> kWidths[] = {
#if ROOFBENCH_X86
    {kernels::kAvx512, avx512::kVariants},
    {kernels::kAvx2, avx2::kVariants},
#endif
    {0, baseline::kVariants},
};

}  // namespace

std::span<const StreamVariant> StreamVariants() { return kernels::BestVariant<kWidths>(); }

const StreamVariant* FindStream(StreamKind kind, std::string_view name) {
  const auto found = std::ranges::find_if(StreamVariants(), [&](const StreamVariant& variant) {
    return variant.kind == kind && variant.name.starts_with(name);
  });
  return found == StreamVariants().end() ? nullptr : &*found;
}

double StreamTraffic(StreamKind kind, double bytes) {
  return kind == StreamKind::kCopy || kind == StreamKind::kUpdate ? 2 * bytes : bytes;
}

kernels::Range ThreadsBytes(std::size_t bytes, int thread, int threads) {
  return kernels::Share(static_cast<int64_t>(bytes), kLineBytes, thread, threads);
}

uint64_t RunStream(const StreamVariant& variant, std::byte* to, const std::byte* from, std::size_t bytes, int threads) {
  // What other threads read and write lies in a line each, wherever the stack is: a short stream takes as long as a few
  // lines need from thread to thread.
  alignas(kLineBytes) std::atomic<uint64_t> sum = 0;
  struct alignas(kLineBytes) Work {
    decltype(variant.run) run;
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
    int threads;
    std::atomic<uint64_t>* sum;
  };
  const Work all = {variant.run, to, from, bytes, threads, &sum};
  kernels::ThreadPool(threads).OnEach([all](int thread) {
    const kernels::Range own = ThreadsBytes(all.bytes, thread, all.threads);
    *all.sum += all.run(all.to == nullptr ? nullptr : all.to + own.begin,
                        all.from == nullptr ? nullptr : all.from + own.begin, static_cast<std::size_t>(own.size()));
  });
  return sum;
}

}  // namespace roofbench::hardware
