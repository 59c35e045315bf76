// SPDX-License-Identifier: Apache-2.0
#include "lib/base/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace roofbench {
namespace {

using testing::HasSubstr;

std::string Reason(const std::string& expression) {
  const auto regex = Regex::Make(expression);
  return regex.ok() ? "none" : std::string(regex.status().message());
}

std::string Repeated(const std::string& text, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

TEST(Regex, FindsAsPosixDoes) {
  for (const auto& [expression, text] : {std::pair{"^a/.*(16|32)$", "a/n:32"},
                                         {"[[:digit:]]+x?", "n16"},
                                         {"[])({}]", "("},
                                         {"d:(64|128){1,2}", "d:64"},
                                         {"a\\.b", "a.b"},
                                         {"", "anything"}}) {
    const auto regex = Regex::Make(expression);
    ASSERT_TRUE(regex.ok()) << regex.status();
    EXPECT_TRUE(regex->Finds(text)) << expression;
  }
  EXPECT_FALSE(Regex::Make("^b")->Finds("ab"));
}

TEST(Regex, ReportsErrors) {
  for (const char* bad : {"(", ")", "a)(", "[z-a]", "*x", "a{2,1}", "[", "\\"}) EXPECT_NE(Reason(bad), "none") << bad;
}

TEST(Regex, RejectsExpressionsThatExhaustStackMemoryOrTime) {
  EXPECT_THAT(Reason(std::string(16000, '(')), HasSubstr("nested parentheses"));
  EXPECT_THAT(Reason(Repeated("(", 2000) + Repeated(")", 2000)), HasSubstr("nested parentheses"));
  EXPECT_THAT(Reason(std::string(1'000'000, 'a')), HasSubstr("too long"));
  EXPECT_THAT(Reason(Repeated("a*", 50'000)), HasSubstr("too long"));
  EXPECT_THAT(Reason("((a{100}){100}){100}"), HasSubstr("too long"));
  EXPECT_THAT(Reason("a{99999999999999999999}"), HasSubstr("too long"));
  EXPECT_THAT(Reason("a{1,30000}"), HasSubstr("too long"));
  EXPECT_THAT(Reason("(a*)*\\1"), HasSubstr("refers to a group"));
}

TEST(Regex, TakesAListOfAllCases) {
  std::string all = "^(";
  for (int i = 0; i < 2000; ++i) all += "family/impl:native/dtype:bf16/n:" + std::to_string(i) + "|";
  const auto regex = Regex::Make(all + "last)/manual_time$");
  ASSERT_TRUE(regex.ok()) << regex.status();
  EXPECT_TRUE(regex->Finds("family/impl:native/dtype:bf16/n:1999/manual_time"));
  EXPECT_TRUE(regex->Finds("last/manual_time"));
  EXPECT_FALSE(regex->Finds("family/impl:native/dtype:bf16/n:2000/manual_time"));
}

// A backtracking matcher would need exponential time.
TEST(Regex, DoesNotBacktrack) {
  const std::string text(200, 'a');
  for (const std::string& expression : {Repeated("(.*)", 7) + "x$", std::string("(a|a)*(a|aa)*(a*)*$x"),
                                        Repeated("a?", 60) + Repeated("a", 60) + "x"}) {
    const auto regex = Regex::Make(expression);
    ASSERT_TRUE(regex.ok()) << regex.status();
    EXPECT_FALSE(regex->Finds(text));
  }
}

}  // namespace
}  // namespace roofbench
