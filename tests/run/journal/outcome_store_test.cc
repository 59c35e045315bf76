// SPDX-License-Identifier: Apache-2.0
#include "lib/run/journal/outcome_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

class OutcomeStoreTest : public testing::Test {
 protected:
  OutcomeStoreTest() {
    for (Point& point : family_.Points(Suite::kQuick)) {
      std::string name = point.Name();
      plan_.push_back({&family_, std::move(point), std::move(name)});
    }
  }
  static Outcome Of(const std::string& name, int repetition, Verdict verdict = Verdict::kMeasured) {
    return {.name = name, .repetition = repetition, .verdict = verdict};
  }

  FakeDevice device_;
  Family family_ = TestFamily(device_, 1e-3);
  std::vector<PlannedCase> plan_;
};

TEST_F(OutcomeStoreTest, KeepsOutcomesByPlaceAndRepetition) {
  OutcomeStore store(plan_.size());
  EXPECT_EQ(store.next_repetition(1), 0);
  const Outcome& first = store.Add(1, Of(plan_[1].name, 0));
  for (int i = 1; i < 100; ++i) store.Add(1, Of(plan_[1].name, i));
  EXPECT_EQ(&store.Of(1)[0], &first) << "a reference survives";
  EXPECT_EQ(store.next_repetition(1), 100);
  EXPECT_TRUE(store.Of(0).empty());
  EXPECT_THROW(store.Of(plan_.size()), std::out_of_range);
}

TEST_F(OutcomeStoreTest, WhatWasRestoredIsFoundByNameAndTakenOnce) {
  OutcomeStore store(plan_.size());
  store.Restore(plan_, {Of(plan_[2].name, 1), Of(plan_[2].name, 0), Of("of another plan", 0)});
  EXPECT_FALSE(store.Take(0).has_value());
  for (int repetition = 0; repetition < 2; ++repetition) {
    std::optional<Outcome> outcome = store.Take(2);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->repetition, repetition);
    EXPECT_FALSE(store.Take(2).has_value()) << "it was taken, and is not yet added";
    store.Add(2, *std::move(outcome));
  }
  EXPECT_FALSE(store.Take(2).has_value());
}

TEST_F(OutcomeStoreTest, CountsFailures) {
  OutcomeStore store(plan_.size());
  store.Add(0, Of(plan_[0].name, 0, Verdict::kFailed));
  store.Add(0, Of(plan_[0].name, 1, Verdict::kSkipped));
  store.Add(1, Of(plan_[1].name, 0, Verdict::kFailed));
  EXPECT_EQ(store.failed(), 2);
}

}  // namespace
}  // namespace roofbench
