// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/token_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace roofbench::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TokenIds, AreNumbersWithCommasOrSpacesBetween) {
  EXPECT_THAT(ParseTokenIds("ids", "1,2, 30\n4\t0").value(), ElementsAre(1, 2, 30, 4, 0));
  EXPECT_TRUE(ParseTokenIds("ids", "").value().empty());
  for (const char* wrong : {"1,end", "-1", "1.5"}) {
    EXPECT_THAT(ParseTokenIds("ids", wrong).status().ToString(), HasSubstr("is no token id")) << wrong;
  }
}

TEST(TokenIds, ComeFromAFileOrAreThemselves) {
  EXPECT_THAT(ReadTokenIds("ids", "5, 17").value(), ElementsAre(5, 17));
  const std::string path = testing::TempDir() + "/token_ids_test.txt";
  std::ofstream(path) << "7 8\n9\n";
  EXPECT_THAT(ReadTokenIds("ids", path).value(), ElementsAre(7, 8, 9));
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_THAT(ReadTokenIds("ids", path).status().ToString(), HasSubstr("ids: there are none"));
  EXPECT_THAT(ReadTokenIds("ids", path + ".gone").status().ToString(), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace roofbench::models
