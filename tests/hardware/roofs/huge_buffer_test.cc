// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/huge_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace roofbench::hardware {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

std::vector<uint64_t> Words(const HugeBuffer& buffer) {
  std::vector<uint64_t> words(buffer.size() / sizeof(uint64_t));
  std::memcpy(words.data(), buffer.data(), words.size() * sizeof(uint64_t));
  return words;
}

TEST(HugeBuffer, StartsAtAHugePage) {
  const HugeBuffer buffer(3 * kMebibyte + 64, 2);
  EXPECT_EQ(buffer.size(), 3 * kMebibyte + 64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % (2 * kMebibyte), 0);
}

TEST(HugeBuffer, IsFilledToTheEndWithWordsThatDiffer) {
  const HugeBuffer buffer(kMebibyte + 64, 3);
  std::vector<uint64_t> words = Words(buffer);
  std::ranges::sort(words);
  EXPECT_NE(words.front(), 0);
  EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
}

TEST(HugeBuffer, ContentsDoNotDependOnTheThreads) {
  EXPECT_EQ(Words(HugeBuffer(kMebibyte, 1)), Words(HugeBuffer(kMebibyte, 5)));
}

TEST(HugeBuffer, SmallPagesHoldTheSame) {
  EXPECT_EQ(Words(HugeBuffer(kMebibyte, 1, Pages::kSmall)), Words(HugeBuffer(kMebibyte, 1)));
}

TEST(HugeBuffer, UntouchedMemoryIsZero) {
  const HugeBuffer buffer = HugeBuffer::Untouched(3 * kMebibyte, Pages::kSmall);
  EXPECT_EQ(buffer.size(), 3 * kMebibyte);
  EXPECT_THAT(Words(buffer), testing::Each(0));
  EXPECT_EQ(HugeBuffer::Untouched(0, Pages::kHuge).data(), nullptr);
}

TEST(HugeBuffer, MovesItsMemory) {
  HugeBuffer first(kMebibyte, 1);
  const std::byte* const data = first.data();
  HugeBuffer second(2 * kMebibyte, 1);
  second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.size(), kMebibyte);
  EXPECT_NE(second.data()[0], std::byte{0});
}

TEST(HugeBuffer, MayBeEmpty) {
  EXPECT_EQ(HugeBuffer().data(), nullptr);
  EXPECT_EQ(HugeBuffer(0, 2).data(), nullptr);
  EXPECT_EQ(HugeBuffer().size(), 0);
}

TEST(HugeBuffer, ThrowsWhereTheSystemRefuses) {
  EXPECT_THROW(HugeBuffer(std::numeric_limits<std::size_t>::max(), 1), std::bad_alloc);
  EXPECT_THROW(HugeBuffer(std::size_t{1} << 60, 1), std::bad_alloc);
}

}  // namespace
}  // namespace roofbench::hardware
