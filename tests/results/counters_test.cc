// SPDX-License-Identifier: Apache-2.0
#include "lib/results/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::DoubleNear;
using testing::Key;
using testing::Not;
using testing::Pair;

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

// The outcome of a case with these samples.
Outcome Sampled(std::vector<double> seconds) {
  Outcome outcome;
  outcome.samples.seconds = std::move(seconds);
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  return outcome;
}

std::map<std::string, double> CountersOf(const Outcome& outcome, const hardware::Datasheet* sheet = nullptr) {
  const auto counters = ComputeCounters(
      {.outcome = outcome, .datasheet = sheet, .reference = *hardware::FindDatasheet("a100-sxm4-40gb")});
  return {counters.begin(), counters.end()};
}

TEST(Counters, ThreeSetsOfPeaks) {
  workload::Operation product{.bytes_read = 1e9};
  product.flops[workload::Index(workload::Dtype::kBf16)] = 312e9;
  Outcome outcome = Sampled({2e-3, 2e-3, 2e-3});
  outcome.cost = {.operations = {product}};
  outcome.roof_ratios = {0.4, 0.5, 0.9};
  std::map<std::string, double> counters = CountersOf(outcome, hardware::FindDatasheet("h200"));
  EXPECT_NEAR(counters["FLOP/s"], 156e12, 1);
  EXPECT_NEAR(counters["a100_flop_util"], 0.5, 1e-9);  // 312 GFLOP in 2 ms of 312 TFLOP/s
  EXPECT_NEAR(counters["a100_mem_util"], 0.5e12 / 1.555e12, 1e-9);
  EXPECT_NEAR(counters["flop_util"], 156e12 / 989e12, 1e-9);
  EXPECT_NEAR(counters["mem_util"], 0.5e12 / 4.8e12, 1e-9);
  EXPECT_EQ(counters["roof"], 0.5);
  EXPECT_EQ(counters["samples"], 3);
  EXPECT_EQ(counters["disturbed"], 0);
}

TEST(Counters, NoShareOfADisturbedRoof) {
  Outcome outcome = Sampled({1});
  outcome.samples.chunks = {{.median_seconds = 1, .roof_rate = 1e9}};
  outcome.roof_name = "memory";
  outcome.roof_ratios = {2};
  outcome.phases = {"decode"};
  outcome.samples.phase_seconds = {{1}};
  outcome.phase_roofs = {0.9};
  outcome.model.token_bytes = 2e9;
  outcome.model_ratios = {2};
  for (const bool disturbed : {false, true}) {
    outcome.disturbed = disturbed;
    const std::map<std::string, double> counters = CountersOf(outcome);
    for (const char* share : {"roof", "decode_roof", "mfu_measured", "mbu_measured"}) {
      EXPECT_EQ(counters.contains(share), !disturbed) << share;
    }
  }
}

TEST(Counters, BandwidthsOfACollective) {
  Outcome outcome = Sampled({2, 2, 2});
  outcome.cost = {.array_bytes = 8, .bus_bytes = 12, .wire_bytes = 16};
  outcome.figures = {{"rank_skew_ms", 5}, {"last_rank", 3}};
  const std::map<std::string, double> counters = CountersOf(outcome);
  EXPECT_THAT(counters, AllOf(Contains(Pair("algbw", 4)), Contains(Pair("busbw", 6)), Contains(Pair("wirebw", 8))));
  EXPECT_THAT(counters, AllOf(Contains(Pair("rank_skew_ms", 5)), Contains(Pair("last_rank", 3))));
  EXPECT_THAT(CountersOf(Sampled({2, 2, 2})), Not(AnyOf(Contains(Key("algbw")), Contains(Key("busbw")))));
}

TEST(Counters, LatencyIsTheTimeOfOneOfManyInSequence) {
  Outcome outcome = Sampled({2e-6, 2e-6, 2e-6});
  EXPECT_THAT(CountersOf(outcome), Not(Contains(Key("latency_ns"))));
  outcome.cost.in_sequence = 100;
  const std::map<std::string, double> counters = CountersOf(outcome);
  EXPECT_NEAR(counters.at("latency_ns"), 20, 1e-9);
  EXPECT_THAT(counters, Not(AnyOf(Contains(Key("roof")), Contains(Key("bytes/s")))));
}

TEST(Counters, NoiseHasAReason) {
  Outcome outcome;
  EXPECT_THAT(NoiseOf(outcome), testing::IsEmpty());
  outcome.summary.ci = 0.2;
  for (const double median : {1.0, 1.5, 2.0}) outcome.samples.chunks.push_back({.median_seconds = median});
  outcome.conditions.others_share = 0.5;
  EXPECT_THAT(NoiseOf(outcome), testing::ElementsAre("ci", "drift", "others"));
  outcome.conditions.stolen_share = 0.6;
  EXPECT_THAT(NoiseOf(outcome), testing::ElementsAre("ci", "drift", "stolen"));
  outcome.conditions.moved = true;
  EXPECT_THAT(NoiseOf(outcome), testing::Contains("moved"));
}

TEST(Counters, EnergyAndTokensPerJoule) {
  Outcome outcome = Sampled({1});
  outcome.model.tokens = 30;
  EXPECT_THAT(CountersOf(outcome), Not(AnyOf(Contains(Key("energy_j")), Contains(Key("tokens/J")))));
  outcome.joules_per_step = 60;
  EXPECT_THAT(CountersOf(outcome), AllOf(Contains(Pair("energy_j", 60)), Contains(Pair("tokens/J", 0.5))));
}

TEST(Counters, SixSamplesBoundAMedian) {
  EXPECT_THAT(CountersOf(Sampled({1, 2, 3, 4, 5, 6})), Contains(Pair("ci", 2.5 / 3.5)));
  EXPECT_THAT(CountersOf(Sampled({1, 2, 3, 4, 5})), Not(Contains(Key("ci"))));
}

TEST(Counters, LagOneCorrelationOfSixSamples) {
  EXPECT_THAT(CountersOf(Sampled({1, 2, 3, 4, 5, 6})), Contains(Pair("lag1", DoubleNear(0.5, 1e-12))));
  EXPECT_THAT(CountersOf(Sampled({1, 6, 1, 6, 1, 6})), Contains(Pair("lag1", DoubleNear(-5 / 6.0, 1e-12))));
  EXPECT_THAT(CountersOf(Sampled({1, 2, 3, 4, 5})), Not(Contains(Key("lag1"))));
}

TEST(Counters, EveryValueIsAFigure) {
  Outcome outcome = Sampled({0, 0});
  outcome.summary.ci = std::numeric_limits<double>::quiet_NaN();
  // tools/report refuses files with figures beyond 1e100.
  for (const double beyond : {std::numeric_limits<double>::infinity(), 1e101, -1e308}) {
    outcome.figures = {{"overhead_ns", beyond}};
    for (const auto& [name, value] : CountersOf(outcome)) EXPECT_LE(std::abs(value), 1e100) << name;
  }
}

TEST(Contract, HasFamiliesAndEveryCounterInTheOrderOfTheTable) {
  const nlohmann::ordered_json contract = ContractOf({{{"name", "softmax"}}});
  EXPECT_EQ(contract["schema"], "roofbench-contract-1");
  EXPECT_EQ(contract["version"], 1);
  ASSERT_EQ(contract["families"], nlohmann::ordered_json::array({{{"name", "softmax"}}}));
  std::vector<std::string> names;
  for (const auto& counter : contract["counters"]) names.push_back(counter["name"]);
  std::vector<std::string> expected = {"time"};
  for (const CounterSpec& spec : CounterTable()) expected.emplace_back(spec.name);
  EXPECT_EQ(names, expected);
  EXPECT_LT(std::ranges::find(names, "predicted_<component>_mem"), std::ranges::find(names, "<component>_mem"))
      << "the first pattern that matches applies";
  for (std::size_t i = 0; i < CounterTable().size(); ++i) {
    EXPECT_EQ(contract["counters"][i + 1]["headline"], CounterTable()[i].headline);
  }
  const auto& time = contract["counters"][0];
  EXPECT_EQ(time["unit"], "s");
  EXPECT_EQ(time["better"], "lower");
  EXPECT_EQ(time["threshold"], 0.01);
  EXPECT_EQ(time["noisy"], true);
}

}  // namespace
}  // namespace roofbench
