// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string Error(const std::string& text) { return std::string(ParseContext(text).status().message()); }

TEST(Context, IsAListOfPairs) {
  const auto facts = ParseContext("rack=7,note=Größe=½");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(*facts, ElementsAre(Pair("rack", "7"), Pair("note", "Größe=½")));
}

TEST(Context, RefusesWhatNoReaderTakes) {
  EXPECT_THAT(Error("a"), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(Error("=a"), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(Error("a=b,"), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(Error(""), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(Error("a=\x1b[31m"), HasSubstr("without control characters"));
  EXPECT_THAT(Error("a=\xff"), HasSubstr("expected UTF-8"));
  std::string longest(5000, 'b');
  longest[1] = '=';
  EXPECT_THAT(Error(longest), HasSubstr("at most"));
}

TEST(Context, EachKeyOnce) {
  const ContextFacts facts = {{"device", "x"}};
  EXPECT_TRUE(CheckContextKeys({{"rack", "7"}}, facts).ok());
  for (const char* key : {"device", "date", "executable", "contract", "roof_read"}) {
    EXPECT_THAT(std::string(CheckContextKeys({{key, "1"}}, facts).message()), HasSubstr(key));
  }
  EXPECT_THAT(std::string(CheckContextKeys({{"a", "1"}, {"a", "2"}}, facts).message()), HasSubstr("given twice"));
}

}  // namespace
}  // namespace roofbench
