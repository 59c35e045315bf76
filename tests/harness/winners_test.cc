#include "lib/harness/winners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench {
namespace {

using testing::HasSubstr;

TEST(Winners, AreTheFastestOfWhatDiffersInItsImplementationAlone) {
  const std::vector<Winner> winners = FindWinners({{"norm/impl:eager/dtype:bf16/d:1", 3e-3, 0.2},
                                                   {"norm/impl:eager/dtype:bf16/d:2", 4e-3, 0.3},
                                                   {"mlp/dtype:bf16", 1e-3, 0.5},
                                                   {"norm/impl:native/dtype:bf16/d:1", 1e-3, 0.6},
                                                   {"norm/impl:onednn/dtype:bf16/d:1", 2e-3, 0.3},
                                                   {"copy/impl:eager", 2e-3, 0.7},
                                                   {"copy/impl:stream", 2.5e-3, 0.6}});
  ASSERT_EQ(winners.size(), 2) << "one implementation alone has nobody to beat";
  EXPECT_EQ(winners[0].work, "norm/dtype:bf16/d:1");
  EXPECT_EQ(winners[0].implementation, "native");
  EXPECT_EQ(winners[0].runner_up, "onednn");
  EXPECT_DOUBLE_EQ(winners[0].lead, 2);
  EXPECT_EQ(winners[0].roof, 0.6);
  EXPECT_EQ(winners[1].work, "copy") << "the implementation may end the name";
  EXPECT_EQ(winners[1].implementation, "eager");
}

TEST(Winners, CasesThatDidNotRunDoNotCount) {
  EXPECT_TRUE(FindWinners({{"norm/impl:eager/d:1", -1, {}}, {"norm/impl:native/d:1", 1e-3, 0.5}}).empty());
  EXPECT_EQ(DescribeWinners({}), "");
}

TEST(Winners, SayWhatIsLeft) {
  const std::string text = DescribeWinners(FindWinners({{"norm/impl:a/d:1", 3e-3, {}},
                                                        {"norm/impl:b/d:1", 1e-3, 0.625},
                                                        {"gemv/impl:a/d:1", 2e-3, {}},
                                                        {"gemv/impl:b/d:1", 3e-3, {}},
                                                        {"adamw/impl:a", 1e-3, 1.02},
                                                        {"adamw/impl:b", 2e-3, 0.5}}));
  EXPECT_THAT(text, HasSubstr("62.5% of the roof, 37.5% left, 3.00x a"));
  EXPECT_THAT(text, HasSubstr("no roof known, 1.50x b"));
  EXPECT_THAT(text, HasSubstr("102.0% of the roof, nothing left, 2.00x b"));
}

}  // namespace
}  // namespace roofbench
