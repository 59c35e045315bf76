#include "lib/kernels/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "lib/kernels/parallel_for.h"

namespace roofbench::kernels {
namespace {

TEST(Share, CoversARangeOnceInWholeGrains) {
  for (const int64_t n : {0, 1, 7, 64, 1000}) {
    for (const int64_t grain : {1, 16, 4096}) {
      for (const int parts : {1, 2, 3, 64}) {
        int64_t next = 0;
        for (int part = 0; part < parts; ++part) {
          const Range share = Share(n, grain, part, parts);
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
  for (const int threads : {1, 2, 3, 7}) ExpectEachOnce(OpenMpTeam(threads));
}

TEST(OpenMpTeam, RegionsShareAndWait) {
  constexpr int kRounds = 1000;
  const OpenMpTeam team(2);
  std::vector<int64_t> items(16);
  std::atomic<int> wrong = 0;
  team.Region([&](const Worker& worker) {
    for (int round = 0; round < kRounds; ++round) {
      worker(16, [&](Range range) {
        for (int64_t i = range.begin; i < range.end; ++i) ++items[static_cast<std::size_t>(i)];
      });
      // Whoever comes out of the loop sees what all have done.
      for (const int64_t item : items) wrong += item != round + 1;
      worker.Barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(items, std::vector<int64_t>(16, kRounds));
}

}  // namespace
}  // namespace roofbench::kernels
