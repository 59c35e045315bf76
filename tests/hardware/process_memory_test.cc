// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/process_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "lib/kernels/threading/huge_pages.h"
#include "tests/hardware/fake_tree.h"

namespace roofbench::hardware {
namespace {

// Runs `body` in a child process, which keeps the allocator settings, and expects it to return true.
void Alone(const std::function<bool()>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(body() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

bool Uses(Allocator allocator) {
  unsetenv("THP_MEM_ALLOC_ENABLE");
  return !UseAllocator(allocator);
}

std::string Variable() {
  const char* const value = std::getenv("THP_MEM_ALLOC_ENABLE");
  return value == nullptr ? "" : value;
}

// Whether the system was asked for huge pages, in a mapping that PreferHugePages was called for.
bool AsksForHugePages() {
  constexpr std::size_t kBytes = 3 * kernels::kHugePageBytes;
  void* const data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  kernels::PreferHugePages(data, kBytes);
  std::ifstream maps("/proc/self/smaps");
  bool asks = false;
  for (std::string line; std::getline(maps, line);) {
    asks = asks || (line.rfind("VmFlags:", 0) == 0 && line.find(" hg") != std::string::npos);
  }
  munmap(data, kBytes);
  return asks;
}

TEST(Allocator, IsPassedToLibTorch) {
  Alone([] { return Uses(Allocator::kTuned) && Variable() == "1"; });
  Alone([] { return Uses(Allocator::kSystem) && Variable() == "0"; });
}

TEST(Allocator, OtherSettingsAreNotOverruled) {
  Alone([] {
    setenv("THP_MEM_ALLOC_ENABLE", "0", 1);
    return UseAllocator(Allocator::kTuned) == "1" && Variable() == "0" && !UseAllocator(Allocator::kSystem);
  });
}

TEST(Allocator, HugePagesAreForAllOrNone) {
  if (!AsksForHugePages()) GTEST_SKIP() << "the system does not say which memory asks for huge pages";
  Alone([] { return Uses(Allocator::kTuned) && AsksForHugePages(); });
  Alone([] { return Uses(Allocator::kSystem) && !AsksForHugePages(); });
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr std::size_t kLarge = std::size_t{64} << 20;

// Unused bytes of the heap, after a large allocation was freed.
std::size_t KeptBytes() {
  void* volatile data = std::malloc(kLarge);
  std::free(data);
  return mallinfo2().fordblks;
}

TEST(Allocator, FreedMemoryStaysUntilItIsReleased) {
  Alone([] { return Uses(Allocator::kTuned) && KeptBytes() >= kLarge; });
  Alone([] { return Uses(Allocator::kSystem) && KeptBytes() < kLarge; });
  Alone([] {
    if (!Uses(Allocator::kTuned) || KeptBytes() < kLarge) return false;
    ReleaseFreedMemory();
    return mallinfo2().fordblks < kLarge;
  });
}
#endif

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

class MemoryLimitTest : public FakeTree {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    EXPECT_EQ(LimitMemory(64 * kMebibyte), 0) << "shadow memory would count";
    GTEST_SKIP() << "a sanitizer excludes a limit";
#endif
  }
  void TearDown() override { LiftMemoryLimit(); }
};

TEST_F(MemoryLimitTest, RefusesMoreThanIsFreeAndGivesLess) {
  ASSERT_GT(LimitMemory(256 * kMebibyte), 0);
  EXPECT_FALSE(Gives(257 * kMebibyte));
  EXPECT_TRUE(Gives(128 * kMebibyte));
}

TEST_F(MemoryLimitTest, FollowsTheFreeMemoryUntilItIsLifted) {
  const double first = LimitMemory(64 * kMebibyte);
  EXPECT_FALSE(Gives(128 * kMebibyte));
  EXPECT_GT(LimitMemory(512 * kMebibyte), first);
  EXPECT_TRUE(Gives(128 * kMebibyte));
  LiftMemoryLimit();
  EXPECT_TRUE(Gives(600 * kMebibyte));
}

TEST_F(MemoryLimitTest, UnknownFreeMemorySetsNoLimit) {
  EXPECT_EQ(LimitMemory(0), 0);
  EXPECT_EQ(LimitMemory(64 * kMebibyte, "/nonexistent"), 0);
  EXPECT_TRUE(Gives(128 * kMebibyte));
}

TEST_F(MemoryLimitTest, CountsTheProcessSize) {
  // "size resident shared text lib data dirty", in pages of 4 to 64 KiB.
  Write("proc/self/statm", "9 8 7 6 5 1000000000 3");
  const double limit = LimitMemory(64 * kMebibyte, root_);
  EXPECT_GT(limit, 1e9 * 4096);
  EXPECT_LT(limit, 1e9 * 65536 + 64 * kMebibyte);
}

constexpr std::size_t kBytes = std::size_t{128} << 20;
// Slack for allocators, the system's late counting, and a sanitizer's shadow, an eighth of the touched memory.
constexpr double kSlack = 48 << 20;

TEST(ProcessMemory, ThePeakIsWhatWasTouchedSinceItBegan) {
  { const std::vector<std::byte> before(2 * kBytes, std::byte{1}); }  // a higher mark, from before
  const ProcessMemory memory;
  if (!memory.PeakBytes()) GTEST_SKIP() << "the system does not lower the high-water mark of a process";
  EXPECT_GT(memory.bytes_before(), 0);
  { const std::vector<std::byte> touched(kBytes, std::byte{1}); }
  const double grown = *memory.PeakBytes() - memory.bytes_before();
  EXPECT_GT(grown, static_cast<double>(kBytes) - kSlack);
  EXPECT_LT(grown, static_cast<double>(kBytes) + kSlack);
}

}  // namespace
}  // namespace roofbench::hardware
