// SPDX-License-Identifier: Apache-2.0
#include "lib/base/start_conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

// Whether it is true in a child process, whose folder and limits are its own.
bool InAChild(bool (*condition)()) {
  const pid_t child = fork();
  if (child == 0) _exit(condition() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(StartConditions, ADeletedWorkingFolderIsNamed) {
  EXPECT_EQ(WhyNotToStart(), nullptr);
  EXPECT_TRUE(InAChild([] {
    {
      const TempFolder folder;
      std::filesystem::current_path(folder / "");
    }
    const char* const why = WhyNotToStart();
    return why != nullptr && std::string(why).find("the working folder has been deleted") == 0;
  }));
}

TEST(StartConditions, ASmallStackIsRaisedForAllThreads) {
  EXPECT_TRUE(InAChild([] {
    rlimit limit{};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = rlim_t{512} << 10;
    setrlimit(RLIMIT_STACK, &limit);
    if (RaiseStackLimit() != nullptr) return false;
    rlimit raised{};
    getrlimit(RLIMIT_STACK, &raised);
    pthread_attr_t attributes;
    std::size_t stack = 0;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &stack);
    return raised.rlim_cur > limit.rlim_cur && stack == raised.rlim_cur;
  }));
}

TEST(StartConditions, AHardLimitIsNamedWithTheWayOut) {
  EXPECT_TRUE(InAChild([] {
    const rlimit little = {.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
    setrlimit(RLIMIT_STACK, &little);
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return false;  // root may raise it
    const char* const why = RaiseStackLimit();
    return why != nullptr && std::string(why).find("ulimit -s 8192") != std::string::npos;
  }));
}

}  // namespace
}  // namespace roofbench
