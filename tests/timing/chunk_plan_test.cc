// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/chunk_plan.h"

#include "gtest/gtest.h"

namespace roofbench::timing {
namespace {

constexpr ChunkLimits kLimits = {.sample_seconds = 1e-6,
                                 .max_steps = 1 << 20,
                                 .chunk_seconds = 0.025,
                                 .max_samples = 1000,
                                 .marks_per_step = 0,
                                 .max_marks = 8192};
constexpr ChunkPlan kLarge = {.steps_per_sample = 1, .samples = 1000};

ChunkPlan Plan(int64_t steps, int64_t samples) { return {.steps_per_sample = steps, .samples = samples}; }

TEST(NextPlan, FillsTheChunksDuration) {
  EXPECT_EQ(NextPlan(kLarge, 1.001e-3, kLimits), Plan(1, 24));
  EXPECT_EQ(NextPlan(kLarge, 0.0124, kLimits), Plan(1, 2));
}

TEST(NextPlan, HoldsASampleHoweverLong) {
  EXPECT_EQ(NextPlan(kLarge, 5, kLimits), Plan(1, 1));
  ChunkLimits overdrawn = kLimits;
  overdrawn.chunk_seconds = -1;
  overdrawn.max_samples = 0;
  EXPECT_EQ(NextPlan(kLarge, 1e-3, overdrawn), Plan(1, 1));
}

TEST(NextPlan, PutsShortStepsIntoOneSampleWithAMargin) {
  EXPECT_EQ(NextPlan(kLarge, 1e-6, kLimits).steps_per_sample, 1);
  EXPECT_EQ(NextPlan(kLarge, 0.99e-6, kLimits).steps_per_sample, 2);
  EXPECT_EQ(NextPlan(kLarge, 0.999e-8, kLimits).steps_per_sample, 111);
}

TEST(NextPlan, NeverTakesStepsOutOfASample) { EXPECT_EQ(NextPlan(Plan(40, 1000), 1e-6, kLimits), Plan(40, 625)); }

TEST(NextPlan, GrowsBlindlyToABoundWhereTheClockShowsNothing) {
  EXPECT_EQ(NextPlan(Plan(16, 10), 0, kLimits), Plan(256, 1));
  EXPECT_EQ(NextPlan(Plan(1 << 20, 10), 0, kLimits), Plan(1 << 20, 1));
  EXPECT_EQ(NextPlan(Plan(1, 10), 1e-30, kLimits).steps_per_sample, 1 << 20);
}

TEST(NextPlan, ASampleHasNoMoreStepsThanItMay) {
  ChunkLimits limits = kLimits;
  limits.max_steps = 7;
  EXPECT_EQ(NextPlan(kLarge, 0.999e-8, limits).steps_per_sample, 7);
  EXPECT_EQ(NextPlan(Plan(1, 10), 0, limits).steps_per_sample, 7);
  limits.marks_per_step = 3;
  limits.max_marks = 13;
  EXPECT_EQ(NextPlan(kLarge, 0.999e-8, limits).steps_per_sample, 4);
}

TEST(NextPlan, GrowsChunksByDegrees) { EXPECT_EQ(NextPlan(Plan(1, 2), 1e-5, kLimits), Plan(1, 16)); }

TEST(NextPlan, KeepsWithinTheClocksMarks) {
  ChunkLimits limits = kLimits;
  limits.max_marks = 101;
  EXPECT_EQ(NextPlan(kLarge, 1e-5, limits), Plan(1, 100));
  limits.marks_per_step = 3;
  EXPECT_EQ(NextPlan(kLarge, 1e-5, limits), Plan(1, 33));
  EXPECT_EQ(NextPlan(kLarge, 1.01e-7, limits), Plan(11, 3));
  EXPECT_EQ(NextPlan(kLarge, 1e-9, limits), Plan(33, 1));  // too few for the floor, all that the clock can mark
}

}  // namespace
}  // namespace roofbench::timing
