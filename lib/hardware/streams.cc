#include "lib/hardware/streams.h"

#include <atomic>

#include "lib/hardware/thread_team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace roofbench::hardware {
namespace {

constexpr std::size_t kLineBytes = 64;

#if defined(__x86_64__)
// The string instructions: microcode knows the best protocol of its memory, on newer processors.
uint64_t StringCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return 0;
}

uint64_t StringWrite(std::byte* to, const std::byte*, std::size_t bytes) {
  std::size_t words = bytes / sizeof(uint64_t);
  asm volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(kWritePattern) : "memory");
  return 0;
}

// Streaming stores are weakly ordered: what follows must not overtake them.
void StreamFence() { _mm_sfence(); }

#define ROOFBENCH_STREAM_STORES 1

namespace avx512 {
#define ROOFBENCH_TARGET __attribute__((target("avx512f")))
constexpr std::size_t kVectorBytes = 64;
template <typename Vector>
ROOFBENCH_TARGET inline void StreamStore(std::byte* to, const Vector& value) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<const __m512i&>(value));
}
#include "lib/hardware/stream_kernels.inc"
#undef ROOFBENCH_TARGET
}  // namespace avx512

namespace avx2 {
#define ROOFBENCH_TARGET __attribute__((target("avx2")))
constexpr std::size_t kVectorBytes = 32;
template <typename Vector>
ROOFBENCH_TARGET inline void StreamStore(std::byte* to, const Vector& value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<const __m256i&>(value));
}
#include "lib/hardware/stream_kernels.inc"
#undef ROOFBENCH_TARGET
}  // namespace avx2

#else
#define ROOFBENCH_STREAM_STORES 0
#endif

// What every compiler targets without being asked: SSE2 or its like.
namespace baseline {
#define ROOFBENCH_TARGET
constexpr std::size_t kVectorBytes = 16;
#if ROOFBENCH_STREAM_STORES
template <typename Vector>
inline void StreamStore(std::byte* to, const Vector& value) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<const __m128i&>(value));
}
#endif
#include "lib/hardware/stream_kernels.inc"
#undef ROOFBENCH_TARGET
}  // namespace baseline

#undef ROOFBENCH_STREAM_STORES

}  // namespace

std::string_view Name(StreamKind kind) {
  switch (kind) {
    case StreamKind::kRead:
      return "read";
    case StreamKind::kCopy:
      return "copy";
    case StreamKind::kUpdate:
      return "update";
    case StreamKind::kWrite:
      return "write";
  }
  return "unknown";
}

std::span<const StreamVariant> StreamVariants(Isa isa) {
  if (isa > WidestIsa()) return {};
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return avx512::kVariants;
  if (isa == Isa::kAvx2) return avx2::kVariants;
#endif
  return baseline::kVariants;
}

std::span<const StreamVariant> StreamVariants() { return StreamVariants(WidestIsa()); }

double StreamTraffic(StreamKind kind, double bytes) {
  return kind == StreamKind::kCopy || kind == StreamKind::kUpdate ? 2 * bytes : bytes;
}

Part PartOf(std::size_t bytes, int thread, int threads) {
  const std::size_t lines = bytes / kLineBytes;
  const auto boundary = [&](int t) {
    return lines * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads) * kLineBytes;
  };
  return {.begin = boundary(thread), .end = boundary(thread + 1)};
}

uint64_t RunStream(const StreamVariant& variant, std::byte* to, const std::byte* from, std::size_t bytes, int threads) {
  std::atomic<uint64_t> sum = 0;
  RunOnTeam(threads, [&](int thread) {
    const Part part = PartOf(bytes, thread, threads);
    sum += variant.run(to == nullptr ? nullptr : to + part.begin, from == nullptr ? nullptr : from + part.begin,
                       part.end - part.begin);
  });
  return sum;
}

}  // namespace roofbench::hardware
