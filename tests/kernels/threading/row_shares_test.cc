// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/threading/row_shares.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace roofbench::kernels {
namespace {

TEST(RowShares, EveryRowIsSomebodysOnce) {
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
TEST(RowShares, WhoIsHeldUpLeavesTheRestToTheOthers) {
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
