// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/pointer_chase.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace roofbench::hardware {
namespace {

TEST(PointerChase, VisitsEveryLineOnceBeforeItReturns) {
  for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
    for (const int64_t lines : {1, 2, 3, 256, 1021}) {
      PointerChase chase(static_cast<std::size_t>(64 * lines), pages);
      ASSERT_EQ(chase.lines(), lines);
      EXPECT_EQ(chase.CycleLength(), lines);
      std::set<int64_t> visited;
      for (int64_t load = 0; load < lines; ++load) {
        visited.insert(chase.line());
        chase.Follow(1);
      }
      EXPECT_EQ(static_cast<int64_t>(visited.size()), lines);
      EXPECT_EQ(*visited.begin(), 0);
      EXPECT_EQ(*visited.rbegin(), lines - 1);
      EXPECT_EQ(chase.line(), 0);
    }
  }
}

TEST(PointerChase, FollowsWhereAPlainWalkLeads) {
  PointerChase chase(64 * 1000, Pages::kSmall);
  int64_t all = 0;
  for (const int64_t loads : {0, 1, 7, 8, 9, 100, 5000}) {
    chase.Follow(loads);
    all += loads;
    EXPECT_EQ(chase.line(), chase.LineAfter(all)) << all;
  }
}

// A next line that is the neighbor is fetched before it is asked for.
TEST(PointerChase, SeldomGoesToANeighbor) {
  PointerChase chase(64 * 1000, Pages::kSmall);
  int neighbors = 0;
  for (int load = 0; load < 1000; ++load) {
    const int64_t before = chase.line();
    chase.Follow(1);
    neighbors += chase.line() == before + 1 ? 1 : 0;
  }
  EXPECT_LT(neighbors, 20);
}

}  // namespace
}  // namespace roofbench::hardware
