// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/operand_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace roofbench {
namespace {

// Sets of so many bytes, and how often one was made.
class OperandCacheTest : public testing::Test {
 protected:
  ~OperandCacheTest() override { OperandCache::Enter("none"); }
  OperandCache::Made Get(const std::string& key, double bytes) {
    return OperandCache::Get(key,
                             [&]() -> absl::StatusOr<OperandCache::Made> {
                               ++made_;
                               return OperandCache::Made{std::make_shared<int>(0), bytes};
                             })
        .value();
  }

  int made_ = 0;
};

TEST_F(OperandCacheTest, KeepsOneSetBetweenCasesOfAFamily) {
  OperandCache::Enter("family");
  const auto first = Get("a", 100);
  OperandCache::Enter("family");
  EXPECT_EQ(Get("a", 100).value, first.value);
  EXPECT_EQ(OperandCache::bytes(), 100);
  EXPECT_NE(Get("b", 30).value, first.value);
  EXPECT_EQ(OperandCache::bytes(), 30);
  EXPECT_EQ(made_, 2);
  OperandCache::Enter("other");
  EXPECT_EQ(OperandCache::bytes(), 0);
  Get("b", 30);
  EXPECT_EQ(made_, 3);
}

// A pilot run makes sets before the measurement, which may ask for them as often as it likes.
TEST_F(OperandCacheTest, SaysWhatAMeasurementMisses) {
  OperandCache::Enter("family");
  OperandCache::BeginMeasurement();
  EXPECT_EQ(Get("a", 100).unseen_bytes, 0);
  EXPECT_EQ(Get("a", 100).unseen_bytes, 0);
  OperandCache::Enter("family");
  OperandCache::BeginMeasurement();
  EXPECT_EQ(Get("a", 100).unseen_bytes, 100);
  EXPECT_EQ(Get("a", 100).unseen_bytes, 100);
  OperandCache::BeginMeasurement();
  EXPECT_EQ(Get("b", 30).unseen_bytes, 100) << "what was let go of made room";
  EXPECT_EQ(Get("b", 30).unseen_bytes, 100);
  EXPECT_EQ(Get("c", 7).unseen_bytes, 100) << "the second set came and went meanwhile";
  OperandCache::Enter("family");
  Get("d", 50);  // by a pilot run
  OperandCache::BeginMeasurement();
  EXPECT_EQ(Get("d", 50).unseen_bytes, 50);
  OperandCache::Enter("other");
  OperandCache::BeginMeasurement();
  EXPECT_EQ(Get("d", 50).unseen_bytes, 0);
}

}  // namespace
}  // namespace roofbench
