// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

std::string Error(std::string_view text, int depth = 3) {
  return std::string(ParseJsonObject(text, depth).status().message());
}

TEST(ParseJsonObject, ReadsAnObject) {
  const auto parsed = ParseJsonObject(R"({"a": {"b": [1, 2.5, "x", null, true]}, "c": {"b": 3}})", 3);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->at("a").at("b").at(1), 2.5);
  EXPECT_EQ(parsed->at("c").at("b"), 3) << "different objects may have the same key";
}

TEST(ParseJsonObject, SaysWhatIsWrong) {
  EXPECT_EQ(Error(""), "is not valid JSON");
  EXPECT_EQ(Error("{\"a\": 1"), "is not valid JSON");
  EXPECT_EQ(Error("{\"a\": 1e999}"), "is not valid JSON");
  EXPECT_EQ(Error("{\"a\": \"\xff\"}"), "is not valid JSON");
  EXPECT_EQ(Error("[{}]"), "is not a JSON object");
  EXPECT_EQ(Error(R"({"a": {"b": 1, "b": 2}})"), "names 'b' twice");
  EXPECT_EQ(Error(R"({"a": {"b": [[]]}})"), "is nested too deeply");
  EXPECT_EQ(Error(R"({"a": {"b": []}})"), "");
  EXPECT_EQ(Error("{\"a\": " + std::string(1'000'000, '[')), "is nested too deeply");
}

// Quadratic work would exceed the time limit of the test: 40,000 members took half a minute.
TEST(ParseJsonObject, ManyMembersTakeLinearWork) {
  constexpr int kMembers = 200'000;
  std::string text = "{";
  for (int i = 0; i < kMembers; ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", "\"t", i, R"(":{"shape":[],"data_offsets":[0,0]})");
  }
  text += "}";
  const auto parsed = ParseJsonObject(text, 3);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->size(), kMembers);
}

TEST(ParseOrderedJsonObject, KeepsTheOrder) {
  const auto parsed = ParseOrderedJsonObject(R"({"b": 1, "a": {"d": 2, "c": 3}})", 2);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->dump(), R"({"b":1,"a":{"d":2,"c":3}})");
  EXPECT_EQ(std::string(ParseOrderedJsonObject(R"({"a": [[]]})", 2).status().message()), "is nested too deeply");
}

TEST(ParseOrderedJsonObject, RefusesMembersThatTakeQuadraticWork) {
  std::string text = "{";
  for (std::size_t i = 0; i < kMostOrderedMembers; ++i) absl::StrAppend(&text, i > 0 ? "," : "", "\"", i, "\":0");
  EXPECT_TRUE(ParseOrderedJsonObject(text + "}", 1).ok());
  EXPECT_EQ(std::string(ParseOrderedJsonObject(text + ",\"x\":0}", 1).status().message()),
            "has an object of more than 256 members");
}

}  // namespace
}  // namespace roofbench
