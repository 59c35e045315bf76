// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/token_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace roofbench::models {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(TokenIds, AreSeparatedByCommasOrSpaces) {
  EXPECT_THAT(ParseTokenIds("ids", "1,2, 30\n4\t0").value(), ElementsAre(1, 2, 30, 4, 0));
  EXPECT_TRUE(ParseTokenIds("ids", "").value().empty());
  for (const char* wrong : {"1,end", "-1", "1.5"}) {
    EXPECT_THAT(ParseTokenIds("ids", wrong).status().ToString(), HasSubstr("is not a token id")) << wrong;
  }
}

TEST(TokenIds, ComeFromAFileOrTheFlag) {
  EXPECT_THAT(ReadTokenIds("ids", "5, 17").value(), ElementsAre(5, 17));
  const std::string path = testing::TempDir() + "/token_ids_test.txt";
  std::ofstream(path) << "7 8\n9\n";
  EXPECT_THAT(ReadTokenIds("ids", path).value(), ElementsAre(7, 8, 9));
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_THAT(ReadTokenIds("ids", path).status().ToString(), HasSubstr("ids: there are none"));
  EXPECT_THAT(ReadTokenIds("ids", path + ".gone").status().ToString(), HasSubstr("No such file"));
}

TEST(TokenLists, AreSeparatedByNewlinesOrSemicolons) {
  const std::vector<TokenIds> three = {{1, 2}, {3}, {4, 5}};
  EXPECT_EQ(ReadTokenLists("ids", "1,2;3;4 5").value(), three);
  EXPECT_EQ(ReadTokenLists("ids", "1,2;3;4 5;").value(), three);
  EXPECT_THAT(ReadTokenLists("ids", "7").value(), ElementsAre(ElementsAre(7)));
  const std::string path = testing::TempDir() + "/token_lists_test.txt";
  std::ofstream(path) << "1 2\r\n3,\n4\t5\n\n";
  EXPECT_EQ(ReadTokenLists("ids", path).value(), three);
  // If they were left out, the other texts would have other numbers.
  EXPECT_THAT(ReadTokenLists("ids", "1;;2").status().ToString(), HasSubstr("ids: list 2 has no token"));
  EXPECT_THAT(ReadTokenLists("ids", ";1").status().ToString(), HasSubstr("ids: list 1 has no token"));
  EXPECT_THAT(ReadTokenLists("ids", ";").status().ToString(), HasSubstr("ids: there are none"));
  EXPECT_THAT(ReadTokenLists("ids", "1;x").status().ToString(), HasSubstr("x is not a token id"));
  EXPECT_THAT(ReadTokenIds("ids", "1;2").status().ToString(), HasSubstr("1;2 is not a token id")) << "of one list";
}

TEST(TokenIds, AListWithATypoIsNotAFile) {
  EXPECT_THAT(ReadTokenIds("ids", "1,2,x").status().ToString(),
              AllOf(HasSubstr("ids=1,2,x"), HasSubstr("not a file, and as a list of token ids: x is not a token id")));
  EXPECT_THAT(ReadTokenIds("ids", "99999999999999999999").status().ToString(), HasSubstr("is not a token id"));
}

TEST(TokenIds, EndlessFilesAreRefusedAtOnce) {
  EXPECT_THAT(ReadTokenIds("ids", "/dev/zero").status().ToString(), HasSubstr("is a device and not a regular file"));
  EXPECT_THAT(ReadTokenIds("ids", testing::TempDir()).status().ToString(), HasSubstr("is a folder"));
  const std::string pipe = testing::TempDir() + "/token_ids_pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ReadTokenIds("ids", pipe).status().ToString(),
              AllOf(HasSubstr("is a pipe"), HasSubstr("- reads standard input")));
  unlink(pipe.c_str());
}

TEST(TokenIds, ErrorsQuoteTheStartOfAWrongPiece) {
  const std::string error = ParseTokenIds("ids", std::string(10'000, '\x1b')).status().ToString();
  EXPECT_THAT(error, AllOf(HasSubstr("\\x1b"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(error.size(), 300);
}

}  // namespace
}  // namespace roofbench::models
