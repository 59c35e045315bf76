// SPDX-License-Identifier: Apache-2.0
#include "lib/results/kept_roofs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNow = 1.8e9;

class KeptRoofsTest : public testing::Test {
 protected:
  const TempFolder folder_;
  const RoofConditions here_ = {
      .version = "1", .revision = "r", .build_type = "b", .kind = "cpu", .name = "fake", .threads = 2, .context = {}};
  const KeptRoofs kept_{folder_ / "", here_, "library 1"};
};

TEST_F(KeptRoofsTest, EachReadingHasItsOwnAge) {
  ASSERT_TRUE(kept_.Save({{.roof = "read", .variant = "a", .rate = 1, .best = true}}, kNow, 0.01).ok());
  ASSERT_TRUE(kept_
                  .Save({{.roof = "read", .variant = "a", .rate = 1, .best = true},
                         {.roof = "fp32", .variant = "b", .rate = 2, .best = true, .range = {3, 4}}},
                        kNow + 1800, 0.02)
                  .ok());
  const KeptRoofs::Content both = kept_.Load(kNow + 3000);
  ASSERT_THAT(both.readings, SizeIs(2));
  EXPECT_EQ(both.age_seconds, 3000);
  EXPECT_EQ(both.other_load, 0.02);
  EXPECT_EQ(both.readings[1].variant, "b");
  EXPECT_EQ(both.readings[1].rate, 2);
  EXPECT_TRUE(both.readings[1].best);
  EXPECT_EQ(both.readings[1].range.slow, 3);
  EXPECT_EQ(both.readings[1].range.fast, 4);
  const KeptRoofs::Content young = kept_.Load(kNow + 3700);
  ASSERT_THAT(young.readings, SizeIs(1)) << "an hour is the most";
  EXPECT_EQ(young.readings[0].roof, "fp32");
  EXPECT_THAT(kept_.Load(kNow - 10).readings, IsEmpty()) << "the clock was set back";
}

TEST_F(KeptRoofsTest, AReadingThatWasMeasuredAgainIsYoung) {
  ASSERT_TRUE(kept_.Save({{.roof = "fp32", .variant = "a", .rate = 1}}, kNow, {}).ok());
  ASSERT_TRUE(kept_.Save({{.roof = "fp32", .variant = "a", .rate = 1.5, .best = true}}, kNow + 1800, {}).ok());
  EXPECT_EQ(kept_.Load(kNow + 2000).age_seconds, 200);
}

TEST_F(KeptRoofsTest, LibrariesShareMemoryAndKeepTheirArithmetic) {
  const KeptRoofs other(folder_ / "", here_, "library 2");
  ASSERT_EQ(other.path(), kept_.path());
  const hardware::RoofReading read{.roof = "read", .variant = "a", .rate = 1, .best = true};
  const auto multiply = [](double rate) { return hardware::RoofReading{.roof = "fp32", .variant = "b", .rate = rate}; };
  const auto rates = [](const KeptRoofs& of) {
    std::vector<double> found;
    for (const hardware::RoofReading& one : of.Load(kNow + 20).readings) found.push_back(one.rate);
    return found;
  };
  ASSERT_TRUE(kept_.Save({read, multiply(2)}, kNow, {}).ok());
  EXPECT_THAT(rates(other), ElementsAre(1));
  ASSERT_TRUE(other.Save({read, multiply(3)}, kNow + 10, {}).ok());
  EXPECT_THAT(rates(other), ElementsAre(1, 3));
  EXPECT_THAT(rates(kept_), ElementsAre(1, 2));
  EXPECT_EQ(kept_.Load(kNow + 20).age_seconds, 20) << "the memory roof was not measured again";
}

TEST_F(KeptRoofsTest, OtherConditionsHaveAnotherFile) {
  RoofConditions there = here_;
  there.context = {{"cpu_isa", "avx2"}, {"governor", "any"}};
  const std::string path = KeptRoofs(folder_ / "", there, "").path();
  EXPECT_NE(path, kept_.path());
  there.context[1].second = "other";
  EXPECT_EQ(KeptRoofs(folder_ / "", there, "").path(), path) << "a momentary condition";
  there.threads = 1;
  EXPECT_NE(KeptRoofs(folder_ / "", there, "").path(), path);
}

TEST_F(KeptRoofsTest, AnyOtherFileIsIgnored) {
  EXPECT_THAT(kept_.Load(kNow).readings, IsEmpty()) << "no file";
  ASSERT_TRUE(kept_.Save({{.roof = "read", .variant = "a", .rate = 1, .best = true}}, kNow, {}).ok());
  const std::string valid = ReadText(kept_.path());
  EXPECT_THAT(kept_.Load(kNow).readings, SizeIs(1));
  std::vector<std::string> texts = {"", "{", "[]", "{}", R"({"key": "other", "readings": [{"roof": "read"}]})"};
  // The file's own key, with readings of other shapes.
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"rate\": 1.0", "\"rate\": \"fast\""},
                                 {"\"measured\"", "\"when\""},
                                 {"\"readings\": [", "\"readings\": 5, \"others\": ["},
                                 {"\"readings\": [", "\"readings\": [7, "},
                                 {"\"roof\": \"read\"", "\"roof\": 5"}}) {
    ASSERT_THAT(valid, HasSubstr(from));
    texts.push_back(absl::StrReplaceAll(valid, {{from, to}}));
  }
  for (const std::string& text : texts) {
    std::ofstream(kept_.path()) << text;
    EXPECT_THAT(kept_.Load(kNow).readings, IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace roofbench
