// SPDX-License-Identifier: Apache-2.0
#include "lib/base/readable.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

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
  const auto server = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (server < 0) GTEST_SKIP() << "userfaultfd is not permitted here";
  uffdio_api api = {.api = UFFD_API, .features = 0, .ioctls = 0};
  ASSERT_EQ(ioctl(server, UFFDIO_API, &api), 0);
  uffdio_register half = {.range = {.start = reinterpret_cast<std::uintptr_t>(pages), .len = kBytes / 2},
                          .mode = UFFDIO_REGISTER_MODE_MISSING,
                          .ioctls = 0};
  ASSERT_EQ(ioctl(server, UFFDIO_REGISTER, &half), 0);
  EXPECT_TRUE(ServesMemory());
  EXPECT_TRUE(IsServed(pages, kBytes));
  EXPECT_FALSE(IsServed(static_cast<char*>(pages) + kBytes / 2, kBytes / 2));
  close(server);
  EXPECT_FALSE(ServesMemory());
  EXPECT_FALSE(IsServed(pages, kBytes));
  munmap(pages, kBytes);
}

}  // namespace
}  // namespace roofbench
