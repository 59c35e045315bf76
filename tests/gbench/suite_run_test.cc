// SPDX-License-Identifier: Apache-2.0
// A process of a run and the one that follows it, on a device that the test breaks. Each is a child, as in the program:
// Google Benchmark registers cases once a process.

#include "lib/gbench/suite_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "lib/base/text.h"

#include "tests/base/temp_folder.h"
#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class SuiteRunTest : public testing::Test {
 protected:
  SuiteRunTest() {
    options_.reference = "a100-sxm4-40gb";
    options_.program = "roofbench";
    options_.out = folder_ / "out.json";
    for (const char* impl : {"good", "throws", "wrong"}) {
      Point point = family_.Points(Suite::kQuick)[0].With("impl", impl);
      std::string name = point.Name();
      plan_.push_back({&family_, std::move(point), std::move(name)});
    }
  }

  // The exit status of a process of the run, and its output in `console_`.
  int RunInAChild() { return RunInAChild(state_); }

  int RunInAChild(SharedState& state) {
    std::cout.flush();
    const std::string console = folder_ / "console";
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream file(console, std::ios::app);
      std::cout.rdbuf(file.rdbuf());
      const int status = RunSuite(options_, plan_, folder_ / "journal", state, device_);
      std::cout.flush();
      _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::ifstream file(console);
    console_.assign(std::istreambuf_iterator<char>(file), {});
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

  std::vector<std::string> RowsWritten() {
    std::ifstream file(options_.out);
    std::vector<std::string> rows;
    const nlohmann::json result = nlohmann::json::parse(file);
    for (const auto& row : result.at("benchmarks")) rows.push_back(row.at("name"));
    return rows;
  }

  TempFolder folder_;
  Options options_;
  FakeDevice device_;
  Family family_ = TestFamily(device_, 1e-3);
  std::vector<PlannedCase> plan_;
  SharedState state_{3};
  std::string console_;
};

TEST_F(SuiteRunTest, LeavesABrokenDeviceToASuccessorWhichShowsTheRest) {
  device_.health = absl::UnavailableError("an illegal memory access was encountered");
  EXPECT_EQ(RunInAChild(), 1);
  EXPECT_TRUE(state_.TakeWish());
  EXPECT_FALSE(state_.finished());
  EXPECT_FALSE(std::ifstream(options_.out).good()) << "a file is whole or not there";
  device_.health = absl::OkStatus();  // a new process
  EXPECT_EQ(RunInAChild(), 1) << "two cases have failed";
  EXPECT_FALSE(state_.TakeWish());
  EXPECT_TRUE(state_.finished());
  EXPECT_THAT(RowsWritten(), ElementsAre("test/n:16", "test/impl:throws/n:16", "test/impl:wrong/n:16"));
  for (const char* once : {"measured roofs", "\ntest ", "  n:16 ", "the kernel broke", "wrong result"}) {
    const std::size_t at = console_.find(once);
    ASSERT_NE(at, std::string::npos) << once << " in\n" << console_;
    EXPECT_EQ(console_.find(once, at + 1), std::string::npos) << once << " again in\n" << console_;
  }
}

// Also those of cases that an earlier process finished, even if the file changed meanwhile.
TEST_F(SuiteRunTest, WritesWhatCasesLeaveBehind) {
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
    const at::Tensor x = in.Randn({4});
    return Case{.step = [this] { device_.fake_clock.Advance(1e-3); },
                .result = [=] { return std::vector{x}; },
                .reference = [=] { return std::vector{x}; },
                .text = [n = at.Text("n")] { return "1,2," + n; }};
  });
  plan_.clear();
  for (const char* n : {"32", "16"}) {
    const Point point = family.Points(Suite::kQuick)[0].With("cache", "warm").With("n", n);
    plan_.push_back({&family, point, point.Name()});
  }
  const std::vector<PlannedCase> both = plan_;
  options_.tokens_out = folder_ / "tokens";
  plan_.pop_back();
  EXPECT_EQ(RunInAChild(), 0);
  EXPECT_EQ(ReadText(options_.tokens_out), both[0].name + "\t1,2,32\n");
  std::ofstream(options_.tokens_out) << "spoilt";
  plan_ = both;
  options_.resume = true;
  EXPECT_EQ(RunInAChild(), 0);
  EXPECT_EQ(ReadText(options_.tokens_out), both[1].name + "\t1,2,16\n" + both[0].name + "\t1,2,32\n");
}

TEST_F(SuiteRunTest, AFailureOnAHealthyDeviceChangesNothing) {
  EXPECT_EQ(RunInAChild(), 1);
  EXPECT_FALSE(state_.TakeWish());
  EXPECT_TRUE(state_.finished());
}

// A family whose repetitions take the given times, in seconds.
Family Timed(FakeDevice& device, std::vector<double> seconds) {
  auto build = std::make_shared<std::size_t>(0);
  return TestFamily(device, 1e-3).Build([=, &device](const Point& /*at*/, Inputs& in) -> absl::StatusOr<Case> {
    const at::Tensor x = in.Randn({4});
    const double step = seconds[std::min((*build)++, seconds.size() - 1)];
    return Case{.step = [=, &device] { device.fake_clock.Advance(step); },
                .result = [=] { return std::vector{x}; },
                .reference = [=] { return std::vector{x}; }};
  });
}

TEST_F(SuiteRunTest, TheScreenMayHaveAggregatesAloneAndFilesHaveAll) {
  const Family family = Timed(device_, {202e-6, 282e-6, 284e-6, 285e-6, 283e-6});
  const Point point = family.Points(Suite::kQuick)[0].With("cache", "warm");
  plan_ = {{&family, point, point.Name()}};
  options_.repetitions = 5;
  EXPECT_EQ(RunInAChild(), 0);
  EXPECT_EQ(RowsWritten().size(), 5 + 4);
  EXPECT_THAT(console_, HasSubstr("  n:16/cache:warm "));
  EXPECT_THAT(console_, HasSubstr("median of 5 ")) << "beside the name";
  EXPECT_THAT(console_, HasSubstr("n:16/cache:warm  median of 5"));
  EXPECT_THAT(console_, HasSubstr("the repetitions split: 1 near 202 µs, 4 near 28"));
  options_.display_aggregates_only = true;
  SharedState again(3);
  std::filesystem::remove(folder_ / "console");
  std::filesystem::remove(folder_ / "journal");
  EXPECT_EQ(RunInAChild(again), 0);
  EXPECT_EQ(RowsWritten().size(), 5 + 4);
  EXPECT_THAT(console_, HasSubstr("n:16/cache:warm  median of 5"));
  EXPECT_THAT(console_, Not(HasSubstr("  n:16/cache:warm     ")));
}

TEST_F(SuiteRunTest, NoLineIsWiderThanTheTerminal) {
  for (const std::size_t width : {80, 100}) {
    setenv("COLUMNS", std::to_string(width).c_str(), 1);
    std::filesystem::remove(folder_ / "console");
    std::filesystem::remove(folder_ / "journal");
    SharedState state(3);
    EXPECT_EQ(RunInAChild(state), 1);
    unsetenv("COLUMNS");
    ASSERT_THAT(console_, HasSubstr("wrong result"));
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(console_, '\n'))) {
      const bool is_command = line.rfind("tools/report", 0) == 0;  // to copy from there: whole
      if (!is_command) {
        EXPECT_LE(DisplayWidth(line), width) << line;
      }
    }
  }
}

TEST_F(SuiteRunTest, APredictionOfMemoryThatIsOffIsSaid) {
  constexpr int64_t kElements = 1 << 18;
  const Point large = family_.Points(Suite::kQuick)[0].With("cache", "warm").With("n", std::to_string(kElements));
  plan_ = {{&family_, large, large.Name()}};
  EXPECT_EQ(RunInAChild(), 0);
  EXPECT_THAT(console_, Not(HasSubstr("predicted"))) << "two vectors, as the formula says";
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point& /*at*/, Inputs& in) -> absl::StatusOr<Case> {
    const at::Tensor x = in.Randn({kElements});
    return Case{.step =
                    [=, this] {
                      const at::Tensor columns = at::zeros({10 * kElements});
                      device_.fake_clock.Advance(1e-3);
                    },
                .result = [=] { return std::vector{x}; },
                .reference = [=] { return std::vector{x}; }};
  });
  plan_ = {{&family, large, large.Name()}};
  std::filesystem::remove(folder_ / "console");
  std::filesystem::remove(folder_ / "journal");
  SharedState state(3);
  EXPECT_EQ(RunInAChild(state), 0);
  EXPECT_THAT(console_, HasSubstr("mem 5.50x predicted"));
}

TEST_F(SuiteRunTest, EveryAxisIsAFieldOfItsRow) {
  EXPECT_EQ(RunInAChild(), 1);
  std::ifstream file(options_.out);
  const nlohmann::json rows = nlohmann::json::parse(file).at("benchmarks");
  EXPECT_EQ(rows[0].at("name"), "test/n:16");
  EXPECT_EQ(rows[0].at("impl"), "good") << "the name leaves it out";
  EXPECT_EQ(rows[0].at("n"), 16);
  EXPECT_EQ(rows[1].at("impl"), "throws") << "also of what failed";
  std::ifstream journal(folder_ / "journal");
  std::string line;
  std::getline(journal, line);  // the header
  std::getline(journal, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("axes").at("impl"), "good");
}

TEST_F(SuiteRunTest, EnergyIsThatOfTheSamples) {
  options_.joules = [this] { return 50 * device_.fake_clock.HostSeconds(); };
  EXPECT_EQ(RunInAChild(), 1);
  std::ifstream file(options_.out);
  const nlohmann::json row = nlohmann::json::parse(file).at("benchmarks").at(0);
  EXPECT_NEAR(row.at("energy_j").get<double>(), 50 * 1e-3, 1e-9);
}

TEST_F(SuiteRunTest, AFailedFirstRepetitionLeavesTheOthersTheirFigures) {
  int builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point& /*at*/, Inputs& in) -> absl::StatusOr<Case> {
    if (++builds == 1) return absl::InternalError("not yet");
    const at::Tensor x = in.Randn({4});
    return Case{.step = [this] { device_.fake_clock.Advance(1e-3); },
                .result = [=] { return std::vector{x}; },
                .reference = [=] { return std::vector{x}; }};
  });
  const Point point = family.Points(Suite::kQuick)[0].With("cache", "warm");
  plan_ = {{&family, point, point.Name()}};
  options_.repetitions = 3;
  EXPECT_EQ(RunInAChild(), 1);
  std::ifstream file(options_.out);
  const nlohmann::json rows = nlohmann::json::parse(file).at("benchmarks");
  ASSERT_EQ(rows.size(), 3 + 4) << "aggregates of the two";
  EXPECT_EQ(rows[0].at("error_message"), "failed: not yet");
  for (const int row : {1, 2}) {
    EXPECT_FALSE(rows[row].contains("error_message"));
    EXPECT_NEAR(rows[row].at("real_time").get<double>(), 1000, 1e-3);
    EXPECT_EQ(rows[row].at("time_unit"), "us");
    EXPECT_EQ(rows[row].at("repetition_index"), row);
    EXPECT_EQ(rows[row].at("iterations"), 1);
    EXPECT_GT(rows[row].at("samples").get<double>(), 0);
    EXPECT_EQ(rows[row].at("label"), "converged");
  }
  EXPECT_EQ(rows[3].at("name"), point.Name() + "_mean");
  EXPECT_NEAR(rows[3].at("real_time").get<double>(), 1000, 1e-3);
  EXPECT_EQ(rows[3].at("iterations"), 3);
  EXPECT_EQ(rows[6].at("aggregate_unit"), "percentage");
  EXPECT_NEAR(rows[6].at("real_time").get<double>(), 0, 1e-6) << "a fraction";
}

}  // namespace
}  // namespace roofbench
