// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/ranks/in_threads.h"

namespace roofbench::ranks {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Board, ExchangesTextsByRank) {
  const auto boards = OpenBoards(3);
  InThreads(boards.size(), [&](std::size_t rank) {
    const auto texts = boards[rank]->Exchange("names", std::string(1, static_cast<char>('a' + rank)), kPatience);
    EXPECT_THAT(texts, ElementsAre("a", "b", "c"));
    EXPECT_EQ(MissingRanks(texts), "");
  });
}

TEST(Board, NamesThoseThatDoNotAnswer) {
  const auto boards = OpenBoards(4);
  boards[2]->Write("names/2", "here");
  const auto texts = boards[0]->Exchange("names", "here", milliseconds(20));
  EXPECT_EQ(MissingRanks(texts), "ranks 1, 3");
  EXPECT_THAT(texts, ElementsAre("here", std::nullopt, "here", std::nullopt));
}

TEST(Board, AWaitGivesUpForAReason) {
  const auto boards = OpenBoards(2);
  try {
    boards[0]->Read("never", kPatience, [] { return std::optional<std::string>("rank 1 was ended"); });
    FAIL() << "it must not return";
  } catch (const ContactLost& lost) {
    EXPECT_STREQ(lost.what(), "rank 1 was ended");
  }
}

TEST(Board, TellsThatTheServingRankIsGone) {
  auto boards = OpenBoards(2);
  boards[0].reset();
  EXPECT_THROW(boards[1]->Read("never", kPatience), ContactLost);
  EXPECT_THROW(boards[1]->Write("late", "text"), ContactLost);
}

TEST(Board, ASecondRunOnThePortIsRefused) {
  const auto boards = OpenBoards(2);
  Place second{.launcher = Launcher::kTorchrun, .size = 2, .port = boards[0]->port(), .serves = true};
  EXPECT_THAT(Board::Open(second, milliseconds(100)).status().ToString(), HasSubstr("choose a different MASTER_PORT"));
  second.serves = false;
  second.rank = 1;
  const absl::Status status = Board::Open(second, milliseconds(100)).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_THAT(status.ToString(), HasSubstr("another run has this port"));
}

TEST(Board, AStartAnewMeetsNoKeyOfTheOneBefore) {
  const auto boards = OpenBoards(2);
  boards[1]->Write("names/1", "before");
  const Place again{.launcher = Launcher::kTorchrun, .rank = 1, .size = 2, .port = boards[0]->port(), .restarts = 1};
  const auto board = Board::Open(again, kPatience);
  ASSERT_TRUE(board.ok()) << board.status();
  EXPECT_FALSE((*board)->Has("names/1"));
}

TEST(Board, AWrongPortIsNamed) {
  uint16_t unused = 0;
  { unused = OpenBoards(1)[0]->port(); }
  const Place place{.launcher = Launcher::kTorchrun, .rank = 1, .size = 2, .port = unused};
  const absl::Status status = Board::Open(place, milliseconds(100)).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.ToString(), HasSubstr(std::to_string(unused)));
  EXPECT_THAT(status.ToString(), HasSubstr("MASTER_PORT must be those of rank 0"));
}

}  // namespace
}  // namespace roofbench::ranks
