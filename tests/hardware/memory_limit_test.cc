// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace roofbench::hardware {
namespace {

constexpr double kMebibyte = 1 << 20;

// Whether the system gives this process so many bytes of private memory.
bool Gives(double bytes) {
  const auto length = static_cast<std::size_t>(bytes);
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    EXPECT_EQ(errno, ENOMEM);
    return false;
  }
  munmap(memory, length);
  return true;
}

class MemoryLimitTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    EXPECT_EQ(LimitMemory(64 * kMebibyte), 0) << "shadow memory would count";
    GTEST_SKIP() << "there is no limit under a sanitizer";
#endif
  }
  void TearDown() override { LiftMemoryLimit(); }
};

TEST_F(MemoryLimitTest, RefusesMoreThanIsFreeAndGivesLess) {
  ASSERT_GT(LimitMemory(256 * kMebibyte), 0);
  EXPECT_FALSE(Gives(257 * kMebibyte));
  EXPECT_TRUE(Gives(128 * kMebibyte));
}

TEST_F(MemoryLimitTest, FollowsTheFreeMemory) {
  const double first = LimitMemory(64 * kMebibyte);
  EXPECT_FALSE(Gives(128 * kMebibyte));
  EXPECT_GT(LimitMemory(512 * kMebibyte), first);
  EXPECT_TRUE(Gives(128 * kMebibyte));
}

TEST_F(MemoryLimitTest, CanBeTakenBack) {
  LimitMemory(64 * kMebibyte);
  LiftMemoryLimit();
  EXPECT_TRUE(Gives(128 * kMebibyte));
}

TEST_F(MemoryLimitTest, NothingKnownIsNoLimit) {
  EXPECT_EQ(LimitMemory(0), 0);
  EXPECT_EQ(LimitMemory(64 * kMebibyte, "/nonexistent"), 0);
  EXPECT_TRUE(Gives(128 * kMebibyte));
}

TEST_F(MemoryLimitTest, CountsWhatTheProcessHas) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "statm_root";
  std::filesystem::create_directories(root / "proc/self");
  // "size resident shared text lib data dirty", in pages of 4 to 64 KiB.
  std::ofstream(root / "proc/self/statm") << "9 8 7 6 5 1000000000 3\n";
  const double limit = LimitMemory(64 * kMebibyte, root.string());
  EXPECT_GT(limit, 1e9 * 4096);
  EXPECT_LT(limit, 1e9 * 65536 + 64 * kMebibyte);
}

}  // namespace
}  // namespace roofbench::hardware
