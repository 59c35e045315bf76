// SPDX-License-Identifier: Apache-2.0
#include "lib/run/journal/run_identity.h"
#include "lib/gbench/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temp_folder.h"
#include "tests/device/fake_device.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> MeasuringFlags(std::vector<std::string> flags) {
  flags.insert(flags.begin(), "roofbench");
  const auto options = ParseOptions(flags);
  EXPECT_TRUE(options.ok()) << options.status();
  return options->measuring_flags;
}

TEST(RunIdentityTest, FlagsOfTheMeasurementCountInAnyOrder) {
  EXPECT_THAT(MeasuringFlags({"--seed=1", "--axis=matmul.n=8", "--benchmark_out=x.json", "--journal=j", "--resume",
                              "--case_timeout=3", "--axis=matmul.n=9", "--benchmark_format=csv"}),
              ElementsAre("--axis=matmul.n=8", "--axis=matmul.n=9", "--seed=1"));
  EXPECT_EQ(MeasuringFlags({"--seed=1", "--threads=1"}), MeasuringFlags({"--threads=1", "--seed=1"}));
  EXPECT_NE(MeasuringFlags({"--max_time=1", "--benchmark_min_time=2"}),
            MeasuringFlags({"--benchmark_min_time=2", "--max_time=1"}))
      << "the last of two names of one budget counts";
}

TEST(RunIdentityTest, EachPartThatDiffersIsNamed) {
  FakeDevice device;
  Options options;
  options.measuring_flags = {"--seed=1"};
  const auto before = IdentityOf(options, device);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(SameRun(*before, *before).ok());
  options.measuring_flags = {"--seed=2"};
  EXPECT_THAT(std::string(SameRun(*before, *IdentityOf(options, device)).message()),
              AllOf(HasSubstr("flags"), HasSubstr("--seed=1"), HasSubstr("--seed=2")));
  for (std::size_t part = 0; part < before->size(); ++part) {
    RunIdentity other = *before;
    other[part].second += "x";
    EXPECT_THAT(std::string(SameRun(other, *before).message()), HasSubstr(other[part].first));
  }
  EXPECT_FALSE(SameRun({}, *before).ok()) << "an identity without the parts is another one";
}

TEST(RunIdentityTest, HashChangesWithEveryByte) {
  const TempFolder folder;
  const std::string text(200'003, 'a');
  std::ofstream(folder / "a") << text;
  const auto hash = HashOfFile(folder / "a");
  ASSERT_TRUE(hash.ok());
  for (const std::size_t at : {std::size_t{0}, std::size_t{65'535}, std::size_t{65'536}, text.size() - 1}) {
    std::string other = text;
    other[at] = 'b';
    std::ofstream(folder / "b") << other;
    EXPECT_NE(*hash, *HashOfFile(folder / "b")) << at;
  }
  EXPECT_FALSE(HashOfFile(folder / "none").ok());
}

}  // namespace
}  // namespace roofbench
