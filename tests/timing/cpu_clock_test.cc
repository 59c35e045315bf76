// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/clock.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>

#include "gtest/gtest.h"

namespace roofbench::timing {
namespace {

TEST(CpuClock, ReturnsItsMarksInOrderSinceTheFirst) {
  CpuClock clock;
  for (const std::size_t marks : {std::size_t{3}, clock.MaxMarks(), std::size_t{1}}) {
    clock.BeginChunk(marks);
    for (std::size_t i = 0; i < marks; ++i) clock.Mark();
    const std::span<const double> seconds = clock.EndChunk();
    ASSERT_EQ(seconds.size(), marks);
    EXPECT_EQ(seconds.front(), 0);
    EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
  }
}

TEST(CpuClock, ReturnsTheMarksThatWereMadeAndRefusesMoreThanItHasRoomFor) {
  CpuClock clock;
  clock.BeginChunk(2);
  EXPECT_TRUE(clock.EndChunk().empty());
  clock.BeginChunk(2);
  clock.Mark();
  clock.Mark();
  EXPECT_THROW(clock.Mark(), std::logic_error);
  EXPECT_EQ(clock.EndChunk().size(), 2U);
}

TEST(CpuClock, MeasuresItsFloorOnce) {
  CpuClock clock;
  const double floor = clock.FloorSeconds();
  EXPECT_GE(floor, 0);
  clock.BeginChunk(2);
  clock.Mark();
  EXPECT_EQ(clock.FloorSeconds(), floor);
  clock.Mark();
  EXPECT_EQ(clock.EndChunk().size(), 2U);  // measuring again would have begun another chunk
}

TEST(CpuClock, CountsHostAndProcessTimeUpwards) {
  CpuClock clock;
  const double host = clock.HostSeconds();
  const double cpu = clock.ProcessCpuSeconds();
  EXPECT_GT(cpu, 0);
  volatile double sink = 0;
  while (clock.ProcessCpuSeconds() == cpu) sink = sink + 1;  // ends, because this loop uses the processor
  EXPECT_GT(clock.HostSeconds(), host);
}

}  // namespace
}  // namespace roofbench::timing
