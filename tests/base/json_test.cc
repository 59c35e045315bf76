// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"

#include <gmock/gmock.h>
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
  EXPECT_EQ(parsed->at("c").at("b"), 3) << "a name may be that of another object's member";
}

TEST(ParseJsonObject, SaysWhatIsWrong) {
  EXPECT_EQ(Error(""), "is no valid JSON");
  EXPECT_EQ(Error("{\"a\": 1"), "is no valid JSON");
  EXPECT_EQ(Error("{\"a\": 1e999}"), "is no valid JSON");
  EXPECT_EQ(Error("{\"a\": \"\xff\"}"), "is no valid JSON");
  EXPECT_EQ(Error("[{}]"), "is no JSON object");
  EXPECT_EQ(Error(R"({"a": {"b": 1, "b": 2}})"), "names 'b' twice");
  EXPECT_EQ(Error(R"({"a": {"b": [[]]}})"), "is nested too deeply");
  EXPECT_EQ(Error(R"({"a": {"b": []}})"), "");
  EXPECT_EQ(Error("{\"a\": " + std::string(1'000'000, '[')), "is nested too deeply");
}

// Quadratic work would take longer than the time that a test has: 40,000 members took half a minute.
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

}  // namespace
}  // namespace roofbench
