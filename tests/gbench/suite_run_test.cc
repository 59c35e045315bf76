// SPDX-License-Identifier: Apache-2.0
// A process of a run and the one that follows it, on a device that the test breaks. Each is a child, as in the program:
// Google Benchmark registers cases once a process.

#include "lib/gbench/suite_run.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
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
#include "tests/run/simple_case.h"

namespace roofbench {
namespace {

using testing::HasSubstr;
using testing::Not;

class SuiteRunTest : public testing::Test {
 protected:
  SuiteRunTest() {
    options_.program = "roofbench";
    options_.out = folder_ / "out.json";
    for (const char* impl : {"good", "throws", "wrong"}) plan_.push_back(PlannedOf(family_, {{"impl", impl}}));
  }

  // The exit status of a process of the run; its output is appended to `console_`.
  int RunInAChild() {
    std::cout.flush();
    const std::string console = folder_ / "console";
    const std::string errors = folder_ / "errors";
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream file(console);
      std::cout.rdbuf(file.rdbuf());
      std::ofstream error_file(errors);
      std::cerr.rdbuf(error_file.rdbuf());
      const int status = RunSuite(options_, plan_, folder_ / "journal", *state_, Machine());
      std::cout.flush();
      _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    console_ += ReadText(console);
    errors_ += ReadText(errors);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

  // The same as the first process of another run, with these cases.
  int RunFromTheStart(std::vector<PlannedCase> plan) {
    plan_ = std::move(plan);
    console_.clear();
    std::filesystem::remove(folder_ / "journal");
    state_ = std::make_unique<SharedState>(plan_.size());
    return RunInAChild();
  }

  nlohmann::json RowsWritten() { return nlohmann::json::parse(ReadText(options_.out)).at("benchmarks"); }

  virtual Device& Machine() { return device_; }

  TempFolder folder_;
  SuiteOptions options_;
  FakeDevice device_;
  Family family_ = TestFamily(device_, 1e-3);
  std::vector<PlannedCase> plan_;
  std::unique_ptr<SharedState> state_ = std::make_unique<SharedState>(3);
  std::string console_;
  std::string errors_;
};

// It has a roof to measure.
class RatedBusyDevice : public BusyDevice {
 public:
  void Calibrate(const hardware::RoofNeeds& needs) override {
    BusyDevice::Calibrate(needs);
    readings.push_back({.roof = "read", .variant = "all", .rate = 1e9, .best = true});
  }
};

class BusySuiteRunTest : public SuiteRunTest {
 protected:
  BusySuiteRunTest() { plan_ = {PlannedOf(busy_family_)}; }
  Device& Machine() override { return busy_; }

  RatedBusyDevice busy_;
  Family busy_family_ = TestFamily(busy_, 1e-3);
};

TEST_F(BusySuiteRunTest, ABusyMachineIsReportedOnceBeforeTheFirstCase) {
  options_.roofs = RoofSource::kMeasure;
  EXPECT_EQ(RunInAChild(), 0);
  const std::string warning = "other programs use 45 % of the processors: end them (top shows them), or --wait_quiet";
  EXPECT_THAT(errors_, HasSubstr(warning));
  EXPECT_THAT(console_, HasSubstr("\n1 case, about 1 s\n"));
  errors_.clear();
  EXPECT_EQ(RunInAChild(), 0) << "a second process of the same run";
  EXPECT_THAT(errors_, Not(HasSubstr("other programs")));
}

TEST_F(SuiteRunTest, PressureIsReportedOnceBeforeTheFirstCaseWithoutRoofsAndConsole) {
  options_.roofs = RoofSource::kOff;
  options_.format = "json";
  options_.pressure = "other programs use 98 % of the processors";
  EXPECT_EQ(RunInAChild(), 1) << "two of its cases fail";
  EXPECT_THAT(errors_, HasSubstr(options_.pressure));
  errors_.clear();
  RunInAChild();
  EXPECT_THAT(errors_, Not(HasSubstr("other programs"))) << "a second process of the same run";
}

TEST_F(SuiteRunTest, AQuietMachineIsNotReported) {
  options_.roofs = RoofSource::kMeasure;
  options_.repetitions = 2;
  EXPECT_EQ(RunFromTheStart({PlannedOf(family_)}), 0);
  EXPECT_THAT(errors_, Not(HasSubstr("other programs")));
  EXPECT_THAT(console_, HasSubstr("\n1 case, 2 repetitions each, about 3 s\n"));
}

// By itself LibTorch prints "[W1128 12:00:00 file.cc:1] Warning: …" at once, in the middle of the table.
TEST_F(SuiteRunTest, AWarningOfLibTorchIsOneLineAfterTheRow) {
  const c10::WarningUtils::WarnAlways every_time;
  const Family warning = PlainFamily("warning", "warns in each step")
                             .Axis({.name = "n"})
                             .Grid(Suite::kQuick, {{"n", {"16", "32"}}})
                             .Cost([](const Point& at) { return workload::CopyStream{at.Number("n") * 4}.Cost(); })
                             .Build([this](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
                               return CaseOf(in.Randn({at.Int("n")}), [this] {
                                 TORCH_WARN("this operator is deprecated");
                                 device_.fake_clock.Advance(1e-3);
                               });
                             });
  options_.repetitions = 2;
  EXPECT_EQ(RunFromTheStart({PlannedOf(warning, {{"n", "16"}}), PlannedOf(warning, {{"n", "32"}})}), 0) << errors_;
  EXPECT_THAT(errors_, HasSubstr("roofbench: LibTorch warns: this operator is deprecated\n"));
  EXPECT_EQ(errors_.find("deprecated"), errors_.rfind("deprecated")) << "once";
  EXPECT_THAT(errors_, Not(HasSubstr("[W")));
}

TEST_F(SuiteRunTest, ABrokenDeviceIsLeftToANewProcessThatShowsTheRest) {
  device_.health = absl::UnavailableError("an illegal memory access was encountered");
  EXPECT_EQ(RunInAChild(), 1);
  EXPECT_TRUE(state_->TakeRespawnRequest());
  EXPECT_FALSE(state_->finished());
  EXPECT_FALSE(std::ifstream(options_.out).good()) << "a file is whole or not there";
  device_.health = absl::OkStatus();  // a new process
  EXPECT_EQ(RunInAChild(), 1) << "two cases have failed";
  EXPECT_FALSE(state_->TakeRespawnRequest());
  EXPECT_TRUE(state_->finished());
  const nlohmann::json rows = RowsWritten();
  ASSERT_EQ(rows.size(), 3);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].at("name"), plan_[i].name);
  for (const char* once : {"measured roofs", "\ntest ", "  n:16 ", "the kernel broke", "wrong result"}) {
    const std::size_t at = console_.find(once);
    ASSERT_NE(at, std::string::npos) << once << " in\n" << console_;
    EXPECT_EQ(console_.find(once, at + 1), std::string::npos) << once << " again in\n" << console_;
  }
}

TEST_F(SuiteRunTest, AFailureOnAHealthyDeviceEndsInOrder) {
  EXPECT_EQ(RunInAChild(), 1);
  EXPECT_FALSE(state_->TakeRespawnRequest());
  EXPECT_TRUE(state_->finished());
  const nlohmann::json rows = RowsWritten();
  EXPECT_EQ(rows[0].at("name"), "test/n:16");
  EXPECT_EQ(rows[1].at("name"), "test/impl:throws/n:16");
  const std::vector<std::string> lines = absl::StrSplit(ReadText(folder_ / "journal"), '\n');
  EXPECT_EQ(nlohmann::json::parse(lines.at(1)).at("axes"),
            nlohmann::json({{"impl", "good"}, {"n", 16}, {"cache", "cold"}}))
      << "the name leaves defaults out";
  EXPECT_EQ(nlohmann::json::parse(lines.at(2)).at("axes").at("impl"), "throws") << "failed rows have their axes, too";
}

// Also those of cases that an earlier process finished, even if the file changed meanwhile.
TEST_F(SuiteRunTest, WritesTheTextsOfCases) {
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
    Case built = CaseOf(in.Randn({4}), [this] { device_.fake_clock.Advance(1e-3); });
    built.text = [n = at.Text("n")] { return "1,2," + n; };
    return built;
  });
  const PlannedCase first = PlannedOf(family, {{"cache", "warm"}, {"n", "32"}});
  const PlannedCase second = PlannedOf(family, {{"cache", "warm"}, {"n", "16"}});
  options_.tokens_out = folder_ / "tokens";
  EXPECT_EQ(RunFromTheStart({first}), 0);
  EXPECT_EQ(ReadText(options_.tokens_out), first.name + "\t1,2,32\n");
  std::ofstream(options_.tokens_out) << "spoilt";
  plan_ = {first, second};
  state_ = std::make_unique<SharedState>(2);
  options_.resume = true;
  EXPECT_EQ(RunInAChild(), 0);
  EXPECT_EQ(ReadText(options_.tokens_out), second.name + "\t1,2,16\n" + first.name + "\t1,2,32\n");
}

TEST_F(SuiteRunTest, TheConsoleMayHaveAggregatesAloneWhileFilesHaveAllRows) {
  const std::vector<double> seconds = {202e-6, 282e-6, 284e-6, 285e-6, 283e-6};  // of the repetitions
  std::size_t builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    return CaseOf(in.Randn({4}), [this, step = seconds[builds++]] { device_.fake_clock.Advance(step); });
  });
  options_.repetitions = 5;
  EXPECT_EQ(RunFromTheStart({PlannedOf(family, {{"cache", "warm"}})}), 0);
  EXPECT_EQ(RowsWritten().size(), 5 + 4);
  EXPECT_THAT(console_, HasSubstr("  n:16/cache:warm "));
  EXPECT_THAT(console_, HasSubstr("n:16/cache:warm  median of 5 "));
  EXPECT_THAT(console_, HasSubstr("the repetitions split: 1 near 202 µs, 4 near 28"));
  options_.library_flags = {"--benchmark_display_aggregates_only=true"};
  EXPECT_EQ(RunFromTheStart(plan_), 0);
  EXPECT_EQ(RowsWritten().size(), 5 + 4);
  EXPECT_THAT(console_, HasSubstr("n:16/cache:warm  median of 5"));
  EXPECT_THAT(console_, Not(HasSubstr("  n:16/cache:warm     ")));
}

TEST_F(SuiteRunTest, AggregatesAreOfCountersThatAllRepetitionsHave) {
  const std::vector<double> seconds = {1e-3, 10};  // of the repetitions: the second has too few samples for an interval
  std::size_t builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    return CaseOf(in.Randn({4}), [this, step = seconds[builds++]] { device_.fake_clock.Advance(step); });
  });
  options_.repetitions = 2;
  EXPECT_EQ(RunFromTheStart({PlannedOf(family, {{"cache", "warm"}})}), 0);
  const nlohmann::json rows = RowsWritten();
  ASSERT_EQ(rows.size(), 2 + 4);
  EXPECT_TRUE(rows[0].contains("ci"));
  EXPECT_FALSE(rows[1].contains("ci"));
  for (const int row : {2, 3, 4, 5}) {
    EXPECT_FALSE(rows[row].contains("ci")) << rows[row];
    EXPECT_TRUE(rows[row].contains("samples")) << rows[row];
  }
}

TEST_F(SuiteRunTest, AnInterruptedRunIsOneLineOfTheJournal) {
  options_.repetitions = 5;
  state_->Interrupt(SIGINT);
  EXPECT_EQ(RunInAChild(), 128 + SIGINT);
  const std::string journal = ReadText(folder_ / "journal");
  EXPECT_EQ(std::ranges::count(journal, '\n'), 2) << "the header and one case of fifteen";
  EXPECT_THAT(journal, HasSubstr("interrupted before it ran"));
}

TEST_F(SuiteRunTest, NoLineIsWiderThanTheTerminal) {
  for (const std::size_t width : {80, 100}) {
    setenv("COLUMNS", std::to_string(width).c_str(), 1);
    EXPECT_EQ(RunFromTheStart(plan_), 1);
    unsetenv("COLUMNS");
    ASSERT_THAT(console_, HasSubstr("wrong result"));
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(console_, '\n'))) {
      const bool is_command = line.find("tools/report ") != std::string::npos;  // to be copied, so never broken
      if (!is_command) {
        EXPECT_LE(DisplayWidth(line), width) << line;
      }
    }
  }
}

TEST_F(SuiteRunTest, AWrongPredictionOfMemoryIsReported) {
  static constexpr int64_t kElements = 1 << 20;
  constexpr double kSeconds = 1e-2;  // slower than the roof
  const AxisValues large = {{"cache", "warm"}, {"n", std::to_string(kElements)}};
  const Family right = TestFamily(device_, kSeconds);
  EXPECT_EQ(RunFromTheStart({PlannedOf(right, large)}), 0);
  EXPECT_THAT(console_, Not(HasSubstr("predicted"))) << "two vectors, as the formula says";
  const Family family = TestFamily(device_, kSeconds).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    return CaseOf(in.Randn({kElements}), [this] {
      const at::Tensor columns = at::zeros({10 * kElements});
      device_.fake_clock.Advance(kSeconds);
    });
  });
  EXPECT_EQ(RunFromTheStart({PlannedOf(family, large)}), 0);
  EXPECT_THAT(console_, HasSubstr("mem 5.50x predicted"));
}

TEST_F(SuiteRunTest, EnergyIsThatOfTheSamples) {
  options_.joules = [this] { return 50 * device_.fake_clock.HostSeconds(); };
  EXPECT_EQ(RunInAChild(), 1);
  EXPECT_NEAR(RowsWritten()[0].at("energy_j").get<double>(), 50 * 1e-3, 1e-9);
}

TEST_F(SuiteRunTest, AFailedFirstRepetitionLeavesTheOthersTheirFigures) {
  int builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    if (++builds == 1) return absl::InternalError("not yet");
    return CaseOf(in.Randn({4}), [this] { device_.fake_clock.Advance(1e-3); });
  });
  options_.repetitions = 3;
  EXPECT_EQ(RunFromTheStart({PlannedOf(family, {{"cache", "warm"}})}), 1);
  const nlohmann::json rows = RowsWritten();
  ASSERT_EQ(rows.size(), 3 + 4) << "aggregates of the two";
  EXPECT_EQ(rows[0].at("error_message"), "failed: not yet");
  for (const int row : {1, 2}) {
    EXPECT_FALSE(rows[row].contains("error_message"));
    EXPECT_NEAR(rows[row].at("real_time").get<double>(), 1000, 1e-3);
    EXPECT_EQ(rows[row].at("time_unit"), "us");
    EXPECT_EQ(rows[row].at("repetition_index"), row);
    EXPECT_EQ(rows[row].at("iterations"), 1);
    EXPECT_GT(rows[row].at("samples").get<double>(), 0);
    EXPECT_EQ(rows[row].at("label"), "narrow");
  }
  EXPECT_EQ(rows[3].at("name"), plan_[0].name + "_mean");
  EXPECT_NEAR(rows[3].at("real_time").get<double>(), 1000, 1e-3);
  EXPECT_EQ(rows[3].at("iterations"), 3);
  EXPECT_EQ(rows[6].at("aggregate_unit"), "percentage");
  EXPECT_NEAR(rows[6].at("real_time").get<double>(), 0, 1e-6) << "a fraction";

  builds = 0;
  options_.repetitions = 2;
  EXPECT_EQ(RunFromTheStart({PlannedOf(family, {{"cache", "warm"}})}), 1);
  EXPECT_EQ(RowsWritten().size(), 2) << "one figure has no aggregates";
}

// The library's own keys, in its order.
TEST_F(SuiteRunTest, JsonHasTheKeysOfGoogleBenchmark) {
  EXPECT_EQ(RunFromTheStart({PlannedOf(family_)}), 0);
  const auto written = nlohmann::ordered_json::parse(ReadText(options_.out));
  std::vector<std::string> keys;
  for (const auto& [key, value] : written.at("benchmarks").at(0).items()) keys.push_back(key);
  keys.resize(11);
  EXPECT_THAT(
      keys, testing::ElementsAre("name", "family_index", "per_family_instance_index", "run_name", "run_type",
                                 "repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time"));
  EXPECT_EQ(written.at("benchmarks").at(0).at("run_name"), "test/n:16") << "without /iterations:1/manual_time";
  EXPECT_FALSE(written.at("context").contains("contract"));
  EXPECT_EQ(written.at("context").at("device"), device_.name());
}

TEST_F(SuiteRunTest, CsvHasTheColumnsOfAllCases) {
  const Family phased =
      TestFamily(device_, 1e-3, "phased").Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
        Case built = CaseOf(in.Randn({4}), [this] { device_.fake_clock.Advance(1e-3); });
        built.figures = {{"overhead_ns", [] { return 1.25; }}};
        return built;
      });
  options_.out_format = "csv";
  options_.library_flags = {"--benchmark_time_unit=ms"};
  EXPECT_EQ(RunFromTheStart({PlannedOf(family_), PlannedOf(phased), PlannedOf(family_, {{"impl", "wrong"}})}), 1);
  const std::vector<std::string> lines = absl::StrSplit(ReadText(options_.out), '\n');
  ASSERT_EQ(lines.size(), 5) << "the header first, and the last line has its end";
  EXPECT_THAT(lines[0], testing::StartsWith("name,iterations,real_time,cpu_time,time_unit,bytes_per_second,"
                                            "items_per_second,label,error_occurred,error_message,\""));
  EXPECT_THAT(lines[0], HasSubstr("\"overhead_ns\""));
  EXPECT_THAT(lines[1], testing::StartsWith("\"test/n:16\",1,"));
  EXPECT_THAT(lines[1], HasSubstr(",ms,,,\"narrow\",,"));
  EXPECT_THAT(lines[2], HasSubstr(",1.25"));
  EXPECT_THAT(lines[3], HasSubstr("wrong result"));
}

TEST_F(SuiteRunTest, AFileMayHaveTheFormatOfTheLibrarysConsole) {
  options_.out_format = "console";
  EXPECT_EQ(RunFromTheStart({PlannedOf(family_)}), 0);
  EXPECT_THAT(ReadText(options_.out), testing::ContainsRegex("Benchmark +Time +CPU +Iterations"));
  EXPECT_THAT(ReadText(options_.out), testing::ContainsRegex("test/n:16 +1000 us"));
}

}  // namespace
}  // namespace roofbench
