// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/allocator.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "lib/kernels/threading/huge_pages.h"

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

TEST(Allocator, IsToldToLibTorch) {
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

}  // namespace
}  // namespace roofbench::hardware
