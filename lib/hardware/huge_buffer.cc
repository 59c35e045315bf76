#include "lib/hardware/huge_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "lib/hardware/streams.h"
#include "lib/hardware/thread_team.h"

namespace roofbench::hardware {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kLineBytes = 64;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Maps whole huge pages at a huge page's boundary, without which the system grants none at the ends.
std::byte* MapAligned(std::size_t bytes) {
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
  madvise(begin + head, bytes, MADV_HUGEPAGE);  // a wish: small pages do as well, more slowly
  return begin + head;
}

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014) over a counter.
uint64_t Scramble(uint64_t counter) {
  uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes, int threads) : size_(bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX - 2 * kHugePageBytes) throw std::bad_alloc();
  data_ = MapAligned(RoundUp(bytes, kHugePageBytes));
  RunOnTeam(threads, [&](int thread) {
    const Part part = PartOf(RoundUp(bytes, kLineBytes), thread, threads);
    for (std::size_t at = part.begin; at < part.end; at += sizeof(uint64_t)) {
      const uint64_t word = Scramble(at);
      std::memcpy(data_ + at, &word, sizeof(word));
    }
  });
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) munmap(data_, RoundUp(size_, kHugePageBytes));
}

}  // namespace roofbench::hardware
