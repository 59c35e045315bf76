// SPDX-License-Identifier: Apache-2.0
#include "lib/results/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "lib/results/noise.h"
#include "tests/device/fake_device.h"

namespace roofbench {
namespace {

// Names that Google Benchmark's readers own.
const std::set<std::string> kReserved = {
    "name",    "run_name",     "run_type",       "repetitions",   "repetition_index",
    "threads", "iterations",   "real_time",      "cpu_time",      "time_unit",
    "label",   "family_index", "error_occurred", "error_message", "aggregate_name"};

TEST(Counters, NamesAreUniqueAndNotOwnedByReaders) {
  std::set<std::string> seen;
  for (const CounterSpec& spec : CounterTable()) {
    EXPECT_TRUE(seen.emplace(spec.name).second) << spec.name;
    EXPECT_EQ(kReserved.count(std::string(spec.name)), 0) << spec.name;
    EXPECT_FALSE(spec.doc.empty());
    EXPECT_THAT(ExplainCounters(), testing::HasSubstr(std::string(spec.name)));
  }
}

TEST(Counters, ThreeSetsOfPeaks) {
  FakeDevice device;
  device.sheet = hardware::FindDatasheet("h200");
  workload::Operation product{.bytes_read = 1e9};
  product.flops[workload::Index(workload::Dtype::kBf16)] = 312e9;
  Outcome outcome;
  outcome.cost = {.operations = {product}};
  outcome.samples.seconds = {2e-3, 2e-3, 2e-3};
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.roof_ratios = {0.4, 0.5, 0.9};
  const auto counters = ComputeCounters({outcome, device, *hardware::FindDatasheet("a100-sxm4-40gb")});
  const auto value = [&](const std::string& name) {
    for (const auto& [key, number] : counters) {
      if (key == name) return number;
    }
    return -1.0;
  };
  EXPECT_NEAR(value("FLOP/s"), 156e12, 1);
  EXPECT_NEAR(value("a100_flop_util"), 0.5, 1e-9);  // 312 GFLOP in 2 ms of 312 TFLOP/s
  EXPECT_NEAR(value("a100_mem_util"), 0.5e12 / 1.555e12, 1e-9);
  EXPECT_NEAR(value("flop_util"), 156e12 / 989e12, 1e-9);
  EXPECT_NEAR(value("mem_util"), 0.5e12 / 4.8e12, 1e-9);
  EXPECT_EQ(value("roof"), 0.5);
  EXPECT_EQ(value("samples"), 3);
  EXPECT_EQ(value("disturbed"), 0);
  EXPECT_EQ(value("ci"), -1) << "three samples bound no median at 95 %";
}

TEST(Counters, NoShareOfARoofThatWasDisturbed) {
  FakeDevice device;
  Outcome outcome;
  outcome.samples.seconds = {1};
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.samples.chunks = {{.median_seconds = 1, .roof_rate = 1e9}};
  outcome.roof_name = "memory";
  outcome.roof_ratios = {2};
  outcome.phases = {"decode"};
  outcome.samples.phase_seconds = {{1}};
  outcome.phase_roofs = {0.9};
  outcome.model.token_bytes = 2e9;
  outcome.model_ratios = {2};
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& [name, value] : ComputeCounters({outcome, device, *hardware::FindDatasheet("h200")})) {
      found.push_back(name);
    }
    return found;
  };
  const std::vector<std::string> shares = {"roof", "decode_roof", "mfu_measured", "mbu_measured"};
  EXPECT_THAT(names(), testing::IsSupersetOf(shares));
  outcome.disturbed = true;
  EXPECT_THAT(names(), testing::Not(testing::Contains(testing::AnyOfArray(shares))));
}

TEST(Counters, NoiseHasAReason) {
  Outcome outcome;
  EXPECT_THAT(NoiseOf(outcome), testing::IsEmpty());
  EXPECT_FALSE(IsNoisy(outcome));
  outcome.summary.ci = 0.2;
  for (const double median : {1.0, 1.5, 2.0}) outcome.samples.chunks.push_back({.median_seconds = median});
  outcome.conditions.others_share = 0.5;
  EXPECT_THAT(NoiseOf(outcome), testing::ElementsAre("ci", "drift", "others"));
  outcome.conditions.stolen_share = 0.6;
  EXPECT_THAT(NoiseOf(outcome), testing::ElementsAre("ci", "drift", "stolen"));
  EXPECT_TRUE(IsNoisy(outcome));
}

TEST(Counters, EnergyAndTokensOfIt) {
  FakeDevice device;
  Outcome outcome;
  outcome.samples.seconds = {1};
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.model.tokens = 30;
  const auto& sheet = *hardware::FindDatasheet("h200");
  for (const auto& [name, value] : ComputeCounters({outcome, device, sheet})) {
    EXPECT_THAT(name, testing::AllOf(testing::StrNe("energy_j"), testing::StrNe("tokens/J"))) << "nothing was counted";
  }
  outcome.joules_per_step = 60;
  const auto counters = ComputeCounters({outcome, device, sheet});
  EXPECT_THAT(counters, testing::Contains(testing::Pair("energy_j", 60)));
  EXPECT_THAT(counters, testing::Contains(testing::Pair("tokens/J", 0.5)));
}

TEST(Counters, SixSamplesBoundAMedian) {
  FakeDevice device;
  Outcome outcome;
  outcome.samples.seconds = {1, 2, 3, 4, 5, 6};
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  const auto counters = ComputeCounters({outcome, device, *hardware::FindDatasheet("h200")});
  EXPECT_THAT(counters, testing::Contains(testing::Pair("ci", 2.5 / 3.5)));
  outcome.samples.seconds.pop_back();
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  EXPECT_THAT(ComputeCounters({outcome, device, *hardware::FindDatasheet("h200")}),
              testing::Not(testing::Contains(testing::Pair("ci", testing::_))));
}

TEST(Counters, AnIntervalIsSaidToBeOfOneProcess) {
  for (const CounterSpec& spec : CounterTable()) {
    if (spec.name == "ci") {
      EXPECT_THAT(std::string(spec.doc), testing::HasSubstr("within this process"));
    }
  }
}

TEST(Counters, NothingThatIsNotFiniteIsEverWritten) {
  FakeDevice device;
  Outcome outcome;
  outcome.samples.seconds = {0, 0};
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.summary.ci = std::numeric_limits<double>::quiet_NaN();
  outcome.figures = {{"overhead_ns", std::numeric_limits<double>::infinity()}};
  for (const auto& [name, value] : ComputeCounters({outcome, device, *hardware::FindDatasheet("h200")})) {
    EXPECT_TRUE(std::isfinite(value)) << name;
  }
}

}  // namespace
}  // namespace roofbench
