// SPDX-License-Identifier: Apache-2.0
#include "lib/base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace roofbench {
namespace {

// In processes of their own: the disposition of a signal is one for the process.
class BrokenConnections : public ::testing::Test {
 protected:
  // Ends with status 0 if a write to a closed connection fails with EPIPE, and with 1 otherwise.
  [[noreturn]] static void WriteToAClosedConnection() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) std::exit(2);
    close(ends[1]);
    const bool failed = write(ends[0], "x", 1) < 0 && errno == EPIPE;
    std::exit(failed ? 0 : 1);
  }

  static void CloseTheReaderOf(int stream) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) std::exit(2);
    dup2(ends[1], stream);
    close(ends[0]);
  }
};
using BrokenConnectionsDeathTest = BrokenConnections;

TEST_F(BrokenConnectionsDeathTest, EndTheProcess) {
  EXPECT_EXIT(WriteToAClosedConnection(), ::testing::KilledBySignal(SIGPIPE), "");
}

TEST_F(BrokenConnectionsDeathTest, AreErrors) {
  const auto survive = [] {
    SurviveBrokenConnections();
    WriteToAClosedConnection();
  };
  EXPECT_EXIT(survive(), ::testing::ExitedWithCode(0), "");
}

TEST_F(BrokenConnectionsDeathTest, OfStandardStreamsStillEndTheProcess) {
  const auto write_to_stdout = [] {
    SurviveBrokenConnections();
    CloseTheReaderOf(STDOUT_FILENO);
    std::exit(write(STDOUT_FILENO, "x", 1) == 1 ? 0 : 1);
  };
  EXPECT_EXIT(write_to_stdout(), ::testing::KilledBySignal(SIGPIPE), "");
}

TEST_F(BrokenConnectionsDeathTest, OfStandardStreamsCanBeNoted) {
  static int noted = 0;
  const auto write_to_stdout = [] {
    SurviveBrokenConnections([](int signal) { noted = signal; });
    CloseTheReaderOf(STDOUT_FILENO);
    const bool failed = write(STDOUT_FILENO, "x", 1) < 0;
    std::exit(failed && write(STDOUT_FILENO, "x", 1) == 1 ? noted : 0);
  };
  EXPECT_EXIT(write_to_stdout(), ::testing::ExitedWithCode(SIGPIPE), "");
}

TEST_F(BrokenConnectionsDeathTest, AreIgnoredWhereTheProcessIgnoredThem) {
  const auto ignore = [] {
    std::signal(SIGPIPE, SIG_IGN);
    SurviveBrokenConnections();
    std::exit(std::signal(SIGPIPE, SIG_DFL) == SIG_IGN ? 0 : 1);
  };
  EXPECT_EXIT(ignore(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace roofbench
