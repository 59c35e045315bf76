// SPDX-License-Identifier: Apache-2.0
// The rates of AVX-512 loops written by hand on this machine: the yardstick for the measured roofs of lib/hardware.
// Shares no code with it, on purpose.
//
//   roof_loops [seconds = 2] [threads = all]
//
// prints {"read": bytes/s, "copy": bytes/s, "fp32": FLOP/s, "bf16": FLOP/s}: the best of many slices, with all threads.
// A copy counts both directions. Exits with 77 where the processor lacks AVX-512 (with bf16).

#if !defined(__x86_64__)

#include <cstdio>

int main() {
  std::fprintf(stderr, "roof_loops: only x86-64 has AVX-512\n");
  return 77;
}

#else

#include <immintrin.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#define AVX512 __attribute__((target("avx512f,avx512bf16"), noinline))

namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

volatile double g_sink;

AVX512 int64_t SumOf(const __m512i& v) {
  alignas(64) int64_t lanes[8];
  _mm512_store_si512(lanes, v);
  int64_t sum = 0;
  for (const int64_t lane : lanes) sum += lane;
  return sum;
}

AVX512 double SumOf(const __m512& v) {
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, v);
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// ---- read: 16 accumulators, of one stream or of several at once; one alone is prefetched ----

template <size_t kStreams>
AVX512 int64_t Read(char*, const char* p, size_t n) {
  constexpr size_t kEach = 16 / kStreams;
  const size_t part = n / kStreams;
  __m512i a[16];
  for (auto& x : a) x = _mm512_setzero_si512();
  for (const char* end = p + part; p < end; p += 64 * kEach) {
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; ++i) {
      const char* line = p + i / kEach * part + i % kEach * 64;
      if (kStreams == 1) _mm_prefetch(line + 4096, _MM_HINT_T0);
      a[i] = _mm512_xor_si512(a[i], _mm512_load_si512(line));
    }
  }
#pragma GCC unroll 16
  for (size_t i = 1; i < 16; ++i) a[0] = _mm512_xor_si512(a[0], a[i]);
  return SumOf(a[0]);
}

// ---- copy: streaming stores ----

enum class Prefetch { kNone, kNta, kT0 };

template <size_t kStreams, size_t kLines, Prefetch kPrefetch>
AVX512 int64_t Copy(char* to, const char* from, size_t n) {
  const size_t part = n / kStreams;
  for (size_t at = 0; at < part; at += 64 * kLines) {
#pragma GCC unroll 2
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const char* p = from + stream * part + at;
      char* q = to + stream * part + at;
      __m512i v[kLines];
#pragma GCC unroll 8
      for (size_t i = 0; i < kLines; ++i) {
        if (kPrefetch == Prefetch::kNta) _mm_prefetch(p + 4096 + 64 * i, _MM_HINT_NTA);
        if (kPrefetch == Prefetch::kT0) _mm_prefetch(p + 4096 + 64 * i, _MM_HINT_T0);
        v[i] = _mm512_load_si512(p + 64 * i);
      }
#pragma GCC unroll 8
      for (size_t i = 0; i < kLines; ++i) _mm512_stream_si512(reinterpret_cast<__m512i*>(q + 64 * i), v[i]);
    }
  }
  _mm_sfence();
  return 0;
}

// ---- arithmetic ----

template <size_t kAccumulators>
AVX512 double Fma(int64_t n, const float* seed) {
  __m512 a[kAccumulators];
#pragma GCC unroll 24
  for (size_t i = 0; i < kAccumulators; ++i) a[i] = _mm512_loadu_ps(seed + 16 * i);
  const __m512 x = _mm512_loadu_ps(seed + 7);
  const __m512 y = _mm512_loadu_ps(seed + 23);
  for (int64_t k = 0; k < n; ++k) {
#pragma GCC unroll 24
    for (size_t i = 0; i < kAccumulators; ++i) a[i] = _mm512_fmadd_ps(a[i], x, y);
  }
  double sum = 0;
#pragma GCC unroll 24
  for (const auto& v : a) sum += SumOf(v);
  return sum;
}

template <size_t kAccumulators>
AVX512 double Bf16Dot(int64_t n, const float* seed) {
  __m512 a[kAccumulators];
#pragma GCC unroll 24
  for (size_t i = 0; i < kAccumulators; ++i) a[i] = _mm512_loadu_ps(seed + 16 * i);
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(seed), _mm512_loadu_ps(seed + 16));
  const __m512bh y = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(seed + 32), _mm512_loadu_ps(seed + 48));
  for (int64_t k = 0; k < n; ++k) {
#pragma GCC unroll 24
    for (size_t i = 0; i < kAccumulators; ++i) a[i] = _mm512_dpbf16_ps(a[i], x, y);
  }
  double sum = 0;
#pragma GCC unroll 24
  for (const auto& v : a) sum += SumOf(v);
  return sum;
}

// ---- harness ----

constexpr double kSliceSeconds = 0.004;
constexpr size_t kBufferBytes = size_t{512} << 20;  // of each of two: 16 times a last-level cache of 32 MiB

char* Map(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  void* raw = mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    std::perror("roof_loops: mmap");
    std::exit(1);
  }
  char* aligned = static_cast<char*>(raw) + (kHuge - reinterpret_cast<uintptr_t>(raw) % kHuge) % kHuge;
  madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

struct Loop {
  int roof;
  std::function<double()> slice;  // a rate
};

}  // namespace

int main(int argc, char** argv) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bf16")) {
    std::fprintf(stderr, "roof_loops: this processor has no AVX-512 with bf16\n");
    return 77;
  }
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const int threads = argc > 2 ? std::atoi(argv[2]) : omp_get_max_threads();
  omp_set_num_threads(threads);

  const size_t part = (kBufferBytes / static_cast<size_t>(threads)) >> 20 << 20;  // of each thread
  char* from = Map(kBufferBytes);
  char* to = Map(kBufferBytes);
#pragma omp parallel
  {
    uint64_t state = 88172645463325252u + static_cast<uint64_t>(omp_get_thread_num());
    const size_t begin = part * static_cast<size_t>(omp_get_thread_num());
    for (size_t at = begin; at < begin + part; at += 8) {  // xorshift
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      *reinterpret_cast<uint64_t*>(from + at) = state;
      *reinterpret_cast<uint64_t*>(to + at) = ~state;
    }
  }
  std::vector<float> seed(24 * 16 + 64);
  for (size_t i = 0; i < seed.size(); ++i) {
    seed[i] = (i % 2 == 0 ? 0.83F : -0.71F) + 0.001F * static_cast<float>(i * 37 % 101);
  }

  // A slice takes each thread's next piece of its part, whichever loop ran before, so that every piece is cold.
  size_t at = 0;
  const auto stream = [&](int64_t (*run)(char*, const char*, size_t), double directions) {
    return [&, run, directions, piece = size_t{16} << 20]() mutable {
      piece = std::min(piece, part);
      if (at + piece > part) at = 0;
      int64_t sum = 0;
      const double begin = Now();
#pragma omp parallel reduction(+ : sum)
      {
        const size_t offset = part * static_cast<size_t>(omp_get_thread_num()) + at;
        sum += run(to + offset, from + offset, piece);
      }
      const double elapsed = Now() - begin;
      g_sink = static_cast<double>(sum);
      const double rate = directions * static_cast<double>(piece) * threads / elapsed;
      at += piece;
      const size_t wanted = static_cast<size_t>(static_cast<double>(piece) * kSliceSeconds / elapsed) >> 16 << 16;
      piece = std::max(wanted, size_t{1} << 20);
      return rate;
    };
  };
  const auto arithmetic = [&](double (*run)(int64_t, const float*), double flops) {
    return [&, run, flops, count = int64_t{100000}]() mutable {
      double sum = 0;
      const double begin = Now();
#pragma omp parallel reduction(+ : sum)
      sum += run(count, seed.data());
      const double elapsed = Now() - begin;
      g_sink = sum;
      const double rate = flops * static_cast<double>(count) * threads / elapsed;
      count = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) * kSliceSeconds / elapsed));
      return rate;
    };
  };
  enum { kRead, kCopy, kFp32, kBf16, kRoofs };
  Loop loops[] = {
      {kRead, stream(Read<1>, 1)},
      {kRead, stream(Read<2>, 1)},
      {kRead, stream(Read<4>, 1)},
      {kCopy, stream(Copy<1, 8, Prefetch::kNta>, 2)},
      {kCopy, stream(Copy<2, 4, Prefetch::kT0>, 2)},
      {kCopy, stream(Copy<1, 4, Prefetch::kNone>, 2)},
      {kFp32, arithmetic(Fma<24>, 24 * 16 * 2)},
      {kFp32, arithmetic(Fma<16>, 16 * 16 * 2)},
      {kBf16, arithmetic(Bf16Dot<24>, 24 * 32 * 2)},
      {kBf16, arithmetic(Bf16Dot<16>, 16 * 32 * 2)},
  };
  double best[kRoofs] = {};
  const double end = Now() + seconds;
  do {
    for (Loop& loop : loops) best[loop.roof] = std::max(best[loop.roof], loop.slice());
  } while (Now() < end);
  std::printf("{\"read\": %.6g, \"copy\": %.6g, \"fp32\": %.6g, \"bf16\": %.6g}\n", best[kRead], best[kCopy],
              best[kFp32], best[kBf16]);
  return 0;
}

#endif
