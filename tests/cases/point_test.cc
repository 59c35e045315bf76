// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace roofbench {
namespace {

using workload::Dtype;

const std::vector<AxisSpec> kAxes = {{.name = "impl", .choices = {"eager", "native"}},
                                     {.name = "m", .default_value = "n"},
                                     {.name = "n"},
                                     {.name = "cache", .choices = {"cold", "warm"}, .default_value = "cold"}};

const std::vector<AxisSpec> kFraction = {{.name = "threshold", .fractions = true}};

Point At(std::string m, std::string n, std::string cache = "cold") {
  return {"f", &kAxes, {{"impl", "eager"}, {"m", std::move(m)}, {"n", std::move(n)}, {"cache", std::move(cache)}}};
}

TEST(Point, NameLeavesDefaultsOut) {
  EXPECT_EQ(At("n", "64").Name(), "f/impl:eager/n:64");
  EXPECT_EQ(At("16", "64", "warm").Name(), "f/impl:eager/m:16/n:64/cache:warm");
}

TEST(Point, DefaultsFollowTheAxisTheyName) {
  EXPECT_EQ(At("n", "64").Number("m"), 64);
  EXPECT_EQ(At("n", "64").With("n", "128").Number("m"), 128);
  EXPECT_EQ(At("16", "64").Number("m"), 16);
}

TEST(Point, UnknownAxisIsAMistakeInTheProgram) {
  EXPECT_THROW(At("n", "64").Number("batch"), std::logic_error);
  EXPECT_THROW(At("n", "64").Number("impl"), std::logic_error);
  EXPECT_THROW(At("n", "64").With("batch", "1"), std::logic_error);
}

TEST(ValidValue, ChoicesNumbersAndFollowing) {
  EXPECT_TRUE(ValidValue(kAxes[0], kAxes, "native"));
  EXPECT_FALSE(ValidValue(kAxes[0], kAxes, "natve"));
  EXPECT_TRUE(ValidValue(kAxes[1], kAxes, "n"));
  EXPECT_FALSE(ValidValue(kAxes[2], kAxes, "n"));
  for (const char* bad :
       {"0", "-1", "+1", " 1", "1.5", "1e3", "", "99999999999999", "99999999999999999999", "0x10", "01"}) {
    EXPECT_FALSE(ValidValue(kAxes[2], kAxes, bad)) << bad;
  }
  EXPECT_TRUE(ValidValue(kAxes[2], kAxes, "3000"));
}

// A number has one spelling, because it is part of names.
TEST(ValidValue, FractionsInTheirShortestForm) {
  const AxisSpec axis = {.name = "threshold", .default_value = "6", .fractions = true};
  for (const char* good : {"0", "6", "2.5", "0.001", "24", "1099511627776"}) {
    EXPECT_TRUE(ValidValue(axis, {axis}, good)) << good;
    EXPECT_EQ(Point("f", &kFraction, {{"threshold", good}}).Number("threshold"), std::stod(good));
  }
  for (const char* bad : {"", ".", ".5", "5.", "6.0", "06", "00", "-1", "+1", " 1", "1e3", "inf", "nan", "1.2.3",
                          "0x10", "1099511627777", "99999999999999999999", "6,5"}) {
    EXPECT_FALSE(ValidValue(axis, {axis}, bad)) << bad;
  }
  EXPECT_NE(ExpectedValues(axis), ExpectedValues(kAxes[2]));
}

// A set has one spelling too.
TEST(ValidValue, SeveralChoicesInTheirOrder) {
  const std::vector<AxisSpec> axes = {
      {.name = "keep", .choices = {"first", "second", "third"}, .default_value = "none", .several = true}};
  for (const char* good : {"none", "first", "third", "first+third", "first+second+third"}) {
    EXPECT_TRUE(ValidValue(axes[0], axes, good)) << good;
  }
  for (const char* bad :
       {"", "+", "third+first", "first+first", "first+", "+first", "first,third", "none+first", "all"}) {
    EXPECT_FALSE(ValidValue(axes[0], axes, bad)) << bad;
  }
  EXPECT_THAT(ExpectedValues(axes[0]), testing::HasSubstr("none, or some of first, second, third in this order"));
  EXPECT_THAT(Point("f", &axes, {{"keep", "first+third"}}).Several("keep"), testing::ElementsAre("first", "third"));
  EXPECT_THAT(Point("f", &axes, {{"keep", "none"}}).Several("keep"), testing::IsEmpty());
  EXPECT_EQ(Point("f", &axes, {{"keep", "first+third"}}).Name(), "f/keep:first+third");
}

TEST(SharedAxes, ADtypeSaysWhatIsComputedInAndStored) {
  const std::vector<AxisSpec> axes = {SharedAxis(kDtypeAxis, {"fp32", "tf32", "bf16", kBf16Autocast})};
  const auto expect = [&](const char* value, Dtype compute, Dtype storage) {
    const ComputeAndStorage dtypes = DtypesOf(Point("family", &axes, {{kDtypeAxis, value}}));
    EXPECT_EQ(dtypes.compute, compute) << value;
    EXPECT_EQ(dtypes.storage, storage) << value;
  };
  expect("fp32", Dtype::kFp32, Dtype::kFp32);
  expect("tf32", Dtype::kTf32, Dtype::kFp32);
  expect("bf16", Dtype::kBf16, Dtype::kBf16);
  expect(kBf16Autocast, Dtype::kBf16, Dtype::kFp32);
}

TEST(NamedRows, AreFoundByTheirNames) {
  struct Row {
    const char* name;
    int value;
  };
  constexpr Row kRows[] = {{"one", 1}, {"two", 2}};
  EXPECT_EQ(NamesOf(kRows), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(RowOf(kRows, "two").value, 2);
  EXPECT_THROW(RowOf(kRows, "three"), std::logic_error);
}

}  // namespace
}  // namespace roofbench
