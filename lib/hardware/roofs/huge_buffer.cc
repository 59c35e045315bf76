// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/huge_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "lib/hardware/roofs/streams.h"
#include "lib/kernels/simd/split_mix.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::hardware {
namespace {

using kernels::kHugePageBytes;

constexpr std::size_t kLineBytes = 64;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Maps whole huge pages at a huge page's boundary; without the alignment the system grants none at the ends.
std::byte* MapAligned(std::size_t bytes, Pages pages) {
  const std::size_t reserved = bytes + kHugePageBytes;
  if (reserved < bytes) throw std::bad_alloc();
  void* const mapped = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  std::byte* const begin = static_cast<std::byte*>(mapped);
  const std::size_t head =
      RoundUp(reinterpret_cast<std::uintptr_t>(begin), kHugePageBytes) - reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t tail = kHugePageBytes - head;
  if (head > 0) munmap(begin, head);
  if (tail > 0) munmap(begin + head + bytes, tail);
  if (pages == Pages::kHuge) {
    kernels::PreferHugePages(begin + head, bytes);  // small pages also work, more slowly
  } else {
    madvise(begin + head, bytes, MADV_NOHUGEPAGE);
  }
  return begin + head;
}

}  // namespace

void HugeBuffer::Unmap::operator()(std::byte* memory) const { munmap(memory, RoundUp(bytes, kHugePageBytes)); }

HugeBuffer HugeBuffer::Untouched(std::size_t bytes, Pages pages) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > SIZE_MAX - 2 * kHugePageBytes) throw std::bad_alloc();
  buffer.memory_ = {MapAligned(RoundUp(bytes, kHugePageBytes), pages), Unmap{bytes}};
  return buffer;
}

HugeBuffer::HugeBuffer(std::size_t bytes, int threads, Pages pages) : HugeBuffer(Untouched(bytes, pages)) {
  if (bytes == 0) return;
  kernels::ThreadPool(threads).OnEach([&](int thread) {
    const kernels::Range own = ThreadsBytes(RoundUp(bytes, kLineBytes), thread, threads);
    for (int64_t at = own.begin; at < own.end; at += sizeof(uint64_t)) {
      const uint64_t word = kernels::SplitMix64::At(static_cast<uint64_t>(at));
      std::memcpy(data() + at, &word, sizeof(word));
    }
  });
}

}  // namespace roofbench::hardware
