// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/cache_eviction.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace roofbench::hardware {
namespace {

std::vector<uint64_t> Counting(std::size_t words) {
  std::vector<uint64_t> values(words);
  std::iota(values.begin(), values.end(), 7);
  return values;
}

// Modified lines are written back, at the ends of the range too, which are in the middle of a line.
TEST(CacheEviction, ContentsStay) {
  std::vector<uint64_t> values = Counting(1 << 17);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  for (const int threads : {1, 2, 3}) {
    const MemoryRange ranges[] = {{bytes + 13, sizeof(uint64_t) * values.size() - 20}, {bytes, 1}, {bytes, 0}, {}};
    EXPECT_EQ(CacheEvictor(1 << 20, threads).Evict(ranges), sizeof(uint64_t) * values.size() - 20 + 1);
    EXPECT_EQ(values, Counting(1 << 17));
  }
}

TEST(CacheEviction, MemoryThatWasGivenBackIsLeftOut) {
  constexpr std::size_t kBytes = 1 << 20;
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::memset(mapped, 1, kBytes);
  const MemoryRange range[] = {{static_cast<const std::byte*>(mapped), kBytes}};
  const CacheEvictor evictor(1 << 20, 2);
  EXPECT_EQ(evictor.Evict(range), kBytes);
  ASSERT_EQ(munmap(mapped, kBytes), 0);
  EXPECT_EQ(evictor.Evict(range), 0);
}

// The estimate depends on the machine; that the contents stay does not.
TEST(CacheEviction, EstimatingLeavesTheContents) {
  std::vector<uint64_t> values = Counting(1 << 17);
  const MemoryRange range[] = {{reinterpret_cast<const std::byte*>(values.data()), sizeof(uint64_t) * values.size()}};
  CacheEvictor evictor(1 << 20, 2);
  EXPECT_GE(evictor.EvictAndEstimateModified(range), 0);
  EXPECT_EQ(values, Counting(1 << 17));
}

// No more than the cache holds, and no more than the operands left.
TEST(CacheEviction, TheRoomIsFilled) {
  std::vector<uint64_t> values = Counting(1 << 17);
  const MemoryRange range[] = {{reinterpret_cast<const std::byte*>(values.data()), sizeof(uint64_t) * values.size()}};
  for (const int threads : {1, 2}) {
    for (const double modified : {0.0, 1e5, 512.0 * 1024}) {
      EXPECT_NEAR(static_cast<double>(CacheEvictor(4 << 20, threads).EvictAndRefill(range, modified)), 1 << 20, 512);
      EXPECT_NEAR(static_cast<double>(CacheEvictor(512 << 10, threads).EvictAndRefill(range, modified)), 512 << 10,
                  512);
    }
  }
  EXPECT_EQ(values, Counting(1 << 17));
}

// For any requested size, and any size of the cache, even none.
TEST(CacheEviction, ModifiedLinesFitTheScratch) {
  for (const int threads : {1, 3}) {
    for (const double cache : {0.0, 1e4, 1e6}) {
      CacheEvictor evictor(cache, threads);
      for (const double bytes : {0.0, 1.0, 64.0, 1e5, 1e8}) EXPECT_LE(evictor.EvictAndRefill({}, bytes), 2 << 20);
    }
  }
}

}  // namespace
}  // namespace roofbench::hardware
