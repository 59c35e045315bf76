// SPDX-License-Identifier: Apache-2.0
#include "lib/base/readable.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <vector>

#include "tests/base/served_memory.h"

namespace roofbench {
namespace {

TEST(Readable, UsualMemoryIsAndProtectedMemoryIsNot) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const std::vector<char> usual(kBytes);
  EXPECT_TRUE(IsReadable(usual.data(), usual.size()));
  EXPECT_TRUE(IsReadable(nullptr, 0));
  void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_TRUE(IsReadable(pages, kBytes));
  ASSERT_EQ(mprotect(static_cast<char*>(pages) + kBytes / 2, kBytes / 2, PROT_NONE), 0);
  EXPECT_FALSE(IsReadable(pages, kBytes));
  EXPECT_TRUE(IsReadable(pages, kBytes / 2));
  munmap(pages, kBytes);
}

TEST(Readable, MemoryThatIsSuppliedWhenItIsReadIsServed) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_FALSE(IsServed(pages, kBytes));
  {
    const ServedMemory half(pages, kBytes / 2);
    if (!half.is_served()) GTEST_SKIP() << "userfaultfd is not permitted here";
    EXPECT_TRUE(ServesMemory());
    EXPECT_TRUE(IsServed(pages, kBytes));
    EXPECT_FALSE(IsServed(static_cast<char*>(pages) + kBytes / 2, kBytes / 2));
  }
  EXPECT_FALSE(ServesMemory());
  EXPECT_FALSE(IsServed(pages, kBytes));
  munmap(pages, kBytes);
}

}  // namespace
}  // namespace roofbench
