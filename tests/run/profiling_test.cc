// SPDX-License-Identifier: Apache-2.0
#include "lib/run/profiling.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

class ProfilingTest : public testing::Test {
 protected:
  ProfilingTest() { std::filesystem::create_directories(options_.folder); }
  ~ProfilingTest() override { std::filesystem::remove_all(options_.folder); }

  // The profile of a case whose steps are `step`, on two copies.
  nlohmann::json ProfileOf(const CaseStep& step, const std::vector<std::string>& phases = {}) {
    const PlannedCase planned{&family_, family_.Points(Suite::kQuick)[0], "test/n:16"};
    BuiltCase built;
    for (int i = 0; i < 2; ++i) built.copies.push_back(Case{.step = step, .phases = phases});
    Outcome outcome;
    outcome.name = planned.name;
    outcome.phases = phases;
    outcome.samples.phase_seconds.assign(phases.size(), {1.0});
    const absl::Status status = ProfileCase(planned, built, options_, device_, outcome);
    EXPECT_TRUE(status.ok()) << status;
    std::ifstream file(options_.folder + "/test+n=16.json");
    std::stringstream text;
    text << file.rdbuf();
    return nlohmann::json::parse(text.str());
  }

  FakeDevice device_;
  const Family family_ = TestFamily(device_, 1e-6);
  const ProfileOptions options_{.folder = testing::TempDir() + "/profiling_test", .steps = 3, .sort = ""};
};

// One step to learn the order of phases, three for the time between operators, one for the libraries' logs, three that
// are recorded to settle the memory layout between the profiler's records, and three that are kept.
TEST_F(ProfilingTest, RecordsStepsAfterRehearsalsAndKeepsOnlyTheLast) {
  int ran = 0;
  const nlohmann::json profile = ProfileOf([&ran] {
    ++ran;
    at::ones({ran});
  });
  EXPECT_EQ(ran, 1 + 3 + 1 + 3 + 3);
  std::vector<std::string> shapes;
  for (const nlohmann::json& row : profile.at("operators")) {
    if (row.at("name") == "aten::fill_") shapes.push_back(row.at("shapes"));
  }
  EXPECT_THAT(shapes, testing::UnorderedElementsAre("[9]", "[10]", "[11]"));
}

TEST_F(ProfilingTest, PhasesAreThoseOfTheKeptSteps) {
  const nlohmann::json profile = ProfileOf(
      [](timing::PhaseMarker& marker) {
        at::ones({1000});
        marker.End(0);
      },
      {"sum"});
  EXPECT_GT(profile.at("phases").at(0).at("stopwatch_ms"), 0);
  EXPECT_LE(profile.at("phases").at(0).at("stopwatch_ms"), profile.at("stopwatch_ms"));
}

}  // namespace
}  // namespace roofbench
