#include "lib/hardware/thread_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace roofbench::hardware {
namespace {

using testing::Each;

TEST(RunOnTeam, CallsEveryThreadOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(threads));
    RunOnTeam(threads, [&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    EXPECT_THAT(std::vector<int>(calls.begin(), calls.end()), Each(1)) << threads << " threads";
  }
}

TEST(RunOnTeam, GivesEachItsOwnThread) {
  if (omp_get_thread_limit() < 3) GTEST_SKIP() << "OMP_THREAD_LIMIT forbids three threads";
  std::mutex mutex;
  std::set<std::thread::id> ids;
  RunOnTeam(3, [&](int) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3);
}

TEST(RunOnTeam, CallsEveryThreadWhereOpenMpGrantsOnlyOne) {
  std::vector<std::atomic<int>> calls(4);
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    omp_set_max_active_levels(1);
    RunOnTeam(4, [&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
  }
  EXPECT_THAT(std::vector<int>(calls.begin(), calls.end()), Each(1));
}

TEST(RunOnTeam, PassesAnExceptionOn) {
  std::atomic<int> calls = 0;
  const auto body = [&](int thread) {
    ++calls;
    if (thread == 1) throw std::runtime_error("thread 1");
  };
  EXPECT_THROW(RunOnTeam(3, body), std::runtime_error);
  EXPECT_EQ(calls, 3);
  EXPECT_THROW(RunOnTeam(1, [](int) { throw std::runtime_error("thread 0"); }), std::runtime_error);
}

}  // namespace
}  // namespace roofbench::hardware
