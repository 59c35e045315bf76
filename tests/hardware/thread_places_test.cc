// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/thread_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>
#include <vector>

namespace roofbench::hardware {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

TEST(ThreadPlaces, HaveTheProcessorsOfAllThreads) {
  const ThreadPlaces bound{{{0}, {4}, {2}}};
  EXPECT_THAT(bound.Processors(), ElementsAre(0, 2, 4));
  EXPECT_EQ(bound.CrowdText(), "");
}

TEST(ThreadPlaces, ThreadsThatNeverRunTogetherAreNamed) {
  const struct {
    std::vector<std::vector<int>> places;
    const char* begin;
  } table[] = {
      {{{0}, {0}}, "2 threads share processor 0: "},
      {{{3}, {0}, {3}}, "2 threads share processor 3: "},
      {{{0, 1}, {0, 1}, {0, 1}}, "3 threads share processors 0,1: "},
      {{{0, 1}, {0}, {1}}, "3 threads share processors 0,1: "},
  };
  for (const auto& [places, begin] : table) EXPECT_THAT(ThreadPlaces{places}.CrowdText(), StartsWith(begin));
  for (const auto& places : std::vector<std::vector<std::vector<int>>>{
           {}, {{}, {}}, {{0}}, {{0, 1}, {0, 1}}, {{0}, {0, 1}}, {{0, 1}, {1, 2}, {0, 2}}}) {
    EXPECT_EQ(ThreadPlaces{places}.CrowdText(), "");
  }
}

// In a thread of its own, whose mask the threads that it starts inherit.
TEST(ThreadPlaces, AreThoseOfRunningThreads) {
  std::thread([] {
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    CPU_ZERO(&allowed);
    CPU_SET(first, &allowed);
    ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
    EXPECT_THAT(FindThreadPlaces(1).Processors(), ElementsAre(first));
  }).join();
  EXPECT_EQ(FindThreadPlaces(2).of_threads.size(), 2U);
}

}  // namespace
}  // namespace roofbench::hardware
