// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <omp.h>
#include <sched.h>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "lib/kernels/threading/parallel_for.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::kernels {
namespace {

using testing::Each;

TEST(Share, CoversARangeOnceInWholeGrains) {
  for (const int64_t n : {0, 1, 7, 64, 1000}) {
    for (const int64_t grain : {1, 16, 4096}) {
      for (const int shares : {1, 2, 3, 64}) {
        int64_t next = 0;
        for (int index = 0; index < shares; ++index) {
          const Range share = Share(n, grain, index, shares);
          EXPECT_EQ(share.begin, next);
          EXPECT_TRUE(share.begin % grain == 0 || share.begin == n);
          next = share.end;
        }
        EXPECT_EQ(next, n);
      }
    }
  }
}

void ExpectEachOnce(const ParallelFor& parallel_for) {
  for (const int64_t n : {0, 1, 2, 5, 1000}) {
    std::vector<int> visits(static_cast<std::size_t>(n));
    parallel_for(n, 2, [&](Range range) {
      for (int64_t i = range.begin; i < range.end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    EXPECT_EQ(visits, std::vector<int>(static_cast<std::size_t>(n), 1));
  }
}

TEST(ParallelFor, VisitsEachItemOnce) {
  ExpectEachOnce(SerialFor());
  for (const int threads : {1, 2, 3, 7}) ExpectEachOnce(ThreadPool(threads));
}

TEST(SpinBarrier, YieldsWithFewerProcessorsThanThreads) {
  EXPECT_GT(SpinBarrier::Spins(2, 2), 0);
  EXPECT_GT(SpinBarrier::Spins(1, 2), 0);
  EXPECT_EQ(SpinBarrier::Spins(3, 2), 0);
  EXPECT_EQ(SpinBarrier::Spins(512, 2), 0);
}

TEST(Processors, AreThoseThatThisProcessMayRunOn) {
  cpu_set_t may_run_on;
  ASSERT_EQ(sched_getaffinity(0, sizeof(may_run_on), &may_run_on), 0);
  EXPECT_EQ(Processors(), CPU_COUNT(&may_run_on));
}

TEST(ThreadPool, CallsEachOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(threads));
    ThreadPool(threads).OnEach([&](int index) { ++calls[static_cast<std::size_t>(index)]; });
    EXPECT_THAT(std::vector<int>(calls.begin(), calls.end()), Each(1)) << threads << " threads";
  }
}

TEST(ThreadPool, GivesEachItsOwnThread) {
  if (omp_get_thread_limit() < 3) GTEST_SKIP() << "OMP_THREAD_LIMIT forbids three threads";
  std::mutex mutex;
  std::set<std::thread::id> ids;
  ThreadPool(3).OnEach([&](int) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3);
}

TEST(ThreadPool, CallsEachWhereOpenMpGrantsOnlyOne) {
  std::vector<std::atomic<int>> calls(4);
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    omp_set_max_active_levels(1);
    ThreadPool(4).OnEach([&](int index) { ++calls[static_cast<std::size_t>(index)]; });
  }
  EXPECT_THAT(std::vector<int>(calls.begin(), calls.end()), Each(1));
}

TEST(ThreadPool, RegionsShareAndWait) {
  constexpr int kRounds = 1000;
  const ThreadPool pool(2);
  std::vector<int64_t> items(16);
  std::atomic<int> wrong = 0;
  pool.Region([&](const Worker& worker) {
    for (int round = 0; round < kRounds; ++round) {
      worker(16, [&](Range range) {
        for (int64_t i = range.begin; i < range.end; ++i) ++items[static_cast<std::size_t>(i)];
      });
      // A thread that leaves the loop sees the results of all threads.
      for (const int64_t item : items) wrong += item != round + 1;
      worker.Barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(items, std::vector<int64_t>(16, kRounds));
}

TEST(RowShares, DivideEachRowOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    for (const int64_t grain : {1, 16}) {
      const std::vector<int64_t> sizes = {1, 5, 16, 48, 1000, 4096};
      RowShares shares(static_cast<int64_t>(sizes.size()));
      for (int round = 0; round < 3; ++round) {
        std::vector<std::vector<std::atomic<int>>> visits;
        for (const int64_t rows : sizes) visits.emplace_back(static_cast<std::size_t>(rows));
        std::atomic<int> uneven = 0;
        shares.Restart();
        ThreadPool(threads).Region([&](const Worker& worker) {
          for (std::size_t product = 0; product < sizes.size(); ++product) {
            shares.Divide(worker, static_cast<int64_t>(product), sizes[product], grain, 3, [&](Range rows) {
              uneven += rows.begin % grain != 0 || (rows.end % grain != 0 && rows.end != sizes[product]);
              for (int64_t row = rows.begin; row < rows.end; ++row) ++visits[product][static_cast<std::size_t>(row)];
            });
          }
        });
        EXPECT_EQ(uneven, 0) << threads << " threads";
        for (const std::vector<std::atomic<int>>& product : visits) {
          for (const std::atomic<int>& row : product) ASSERT_EQ(row, 1) << threads << " threads, grain " << grain;
        }
      }
    }
  }
}

// One thread sleeps in its first part until the other has taken all of the rest.
TEST(RowShares, LeaveTheRestOfADelayedThreadToTheOthers) {
  constexpr int64_t kRows = 1000;
  RowShares shares(1);
  shares.Restart();
  std::atomic<int64_t> rows_of[2] = {0, 0};
  std::atomic<bool> other_ended = false;
  std::atomic<int> granted = 0;
  ThreadPool(2).Region([&](const Worker& worker) {
    granted = worker.threads();
    if (worker.threads() < 2) return;
    shares.Divide(worker, 0, kRows, 1, 10, [&](Range rows) {
      while (worker.index() == 0 && !other_ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rows_of[worker.index()] += rows.size();
    });
    if (worker.index() == 1) other_ended = true;
  });
  if (granted < 2) GTEST_SKIP() << "one thread only";
  EXPECT_EQ(rows_of[0], kRows * 3 / 8);
  EXPECT_EQ(rows_of[1], kRows * 5 / 8);
}

}  // namespace
}  // namespace roofbench::kernels
