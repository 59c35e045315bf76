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
  ~OperandCacheTest() override { OperandCache::Enter("nobody"); }
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

// A measurement begins with the case, so that it sees what is made in it, however often it is asked for.
TEST_F(OperandCacheTest, SaysWhatAMeasurementMisses) {
  OperandCache::Enter("family");
  EXPECT_EQ(Get("a", 100).unseen_bytes, 0);
  EXPECT_EQ(Get("a", 100).unseen_bytes, 0);
  OperandCache::Enter("family");
  EXPECT_EQ(Get("a", 100).unseen_bytes, 100);
  EXPECT_EQ(Get("a", 100).unseen_bytes, 100);
  OperandCache::Enter("family");
  EXPECT_EQ(Get("b", 30).unseen_bytes, 100) << "what was let go of made room";
  EXPECT_EQ(Get("b", 30).unseen_bytes, 100);
  OperandCache::Enter("family");
  EXPECT_EQ(Get("b", 30).unseen_bytes, 30);
}

}  // namespace
}  // namespace roofbench
