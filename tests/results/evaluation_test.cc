// SPDX-License-Identifier: Apache-2.0
#include "lib/results/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// 1 TFLOP per step, in chunks whose samples took 2 s and 4 s; next to them the arithmetic ran at half of its calibrated
// rate. The rate next to a third chunk is unknown.
Outcome TwoChunks() {
  Outcome outcome;
  outcome.model.flops = 1e12;
  outcome.samples.chunks = {{.median_seconds = 2, .roof_rate = 1e12},
                            {.median_seconds = 4, .roof_rate = 1e12},
                            {.median_seconds = 4, .roof_rate = 0}};
  return outcome;
}

TEST(ModelRatios, AreKnownOnlyWhereArithmeticBinds) {
  hardware::RoofGauge gauge{.peaks = {}, .bound = workload::Bound::kCompute, .name = "bf16"};
  gauge.calibrated_rate = 2e12;
  EXPECT_THAT(ModelRatios(gauge, TwoChunks()), ElementsAre(0.5, 0.25));
  // The probe is then not arithmetic, and the earlier calibration does not count as a roof inside the case.
  gauge.bound = workload::Bound::kMemory;
  EXPECT_THAT(ModelRatios(gauge, TwoChunks()), IsEmpty());
}

// Reads memory at 10 GB/s, and is sampled in chunks whose steps take a second each, between probes of these rates.
Outcome Reading(double bytes, const std::vector<double>& probed) {
  Outcome outcome;
  outcome.cost = workload::InOperands({.bytes_read = bytes});
  for (const double rate : probed) {
    outcome.samples.chunks.push_back(
        {.first_sample = std::ssize(outcome.samples.seconds), .samples = 10, .median_seconds = 1, .roof_rate = rate});
    outcome.samples.seconds.insert(outcome.samples.seconds.end(), 10, 1.0);
  }
  return outcome;
}

// `probe` is the roof's rate after the case.
absl::Status Judge(Outcome& outcome, bool on_processors = true, const timing::RoofProbe& probe = {}) {
  hardware::RoofGauge gauge{.peaks = {.read = 1e10}, .probe = probe, .calibrated_rate = 1e10, .name = "memory"};
  return Evaluate(gauge, hardware::CacheState::kCold, on_processors, outcome);
}

TEST(Evaluate, NoNoiseExplainsManyTimesTheRoof) {
  for (const bool is_noisy : {false, true}) {
    for (const std::vector<double>& probed : {std::vector<double>(8, 1e10), std::vector<double>(8, 1e9), {1e10}}) {
      Outcome impossible = Reading(1.5e11, probed);
      impossible.conditions.others_share = is_noisy ? 0.5 : 0;
      EXPECT_THAT(Judge(impossible).ToString(), testing::HasSubstr("at 15 times the highest rate of the memory roof"));
      EXPECT_TRUE(impossible.disturbed);
    }
  }
}

TEST(Evaluate, NoiseExplainsALittleAboveTheRoof) {
  Outcome outcome = Reading(1.5e10, std::vector<double>(8, 1e10));
  EXPECT_FALSE(Judge(outcome).ok()) << "on a quiet machine it does not";
  outcome = Reading(1.5e10, std::vector<double>(8, 1e10));
  outcome.conditions.others_share = 0.5;
  EXPECT_TRUE(Judge(outcome).ok());
  EXPECT_TRUE(outcome.disturbed);
  outcome = Reading(1.5e11, std::vector<double>(8, 1e10));
  outcome.conditions.others_share = 0.8;
  EXPECT_TRUE(Judge(outcome).ok()) << "a fifth of the processors was left to the probes";
  outcome = Reading(9e9, std::vector<double>(8, 2e9));
  EXPECT_TRUE(Judge(outcome).ok()) << "below the calibration, whatever disturbed the probes";
  EXPECT_TRUE(outcome.disturbed);
}

// Memory flips between two speeds within minutes: between the probes and the samples of a short case, too.
TEST(Evaluate, ASecondLookConfirmsWhatIsAboveTheRoof) {
  const auto look = [](double bytes, std::vector<double> rates) {
    Outcome outcome = Reading(bytes, std::vector<double>(4, 1e10));
    std::size_t looks = 0;
    const absl::Status status =
        Judge(outcome, true, [&](double) { return rates[std::min(looks++, rates.size() - 1)]; });
    EXPECT_TRUE(outcome.disturbed);
    return std::pair(status.ok(), looks);
  };
  EXPECT_THAT(look(1.4e10, {1.4e10}), testing::Pair(true, 1)) << "as fast as the memory is now";
  EXPECT_THAT(look(1.4e10, {1e10, 9e9, 1.2e10}), testing::Pair(true, 3)) << "one fast look is enough";
  EXPECT_THAT(look(1.4e10, {1e10}), testing::Pair(false, testing::Gt(3)));
  EXPECT_THAT(look(1e12, {2e10}), testing::Pair(false, testing::Gt(3))) << "faster memory does not explain it";
  EXPECT_THAT(look(1.2e10, {1e10}), testing::Pair(true, 0)) << "nothing to confirm";
}

TEST(Evaluate, ProbesThatDisagreeGiveNoShare) {
  const auto is_disturbed = [](const std::vector<double>& probed) {
    Outcome outcome = Reading(1e9, probed);
    EXPECT_TRUE(Judge(outcome).ok());
    return outcome.disturbed;
  };
  EXPECT_FALSE(is_disturbed({1e10, 9e9, 1e10, 8e9, 7e9, 1e10, 1e10, 2e9})) << "a single slow one is outvoted";
  EXPECT_TRUE(is_disturbed({1e10, 2e9, 1e10, 2e9, 1e10, 2e9, 1e10, 2e9}));
  EXPECT_TRUE(is_disturbed(std::vector<double>(8, 2e9))) << "all are far below the calibration";
}

TEST(Evaluate, TheScatterOfACollectiveIsNotThatOfItsLink) {
  const auto is_disturbed = [](double slow_step, double slow_probe) {
    Outcome outcome;
    outcome.cost.bus_bytes = 1e9;
    outcome.cost.link_messages = 1;
    for (int i = 0; i < 8; ++i) {
      const bool is_slow = i % 2 == 0;
      outcome.samples.chunks.push_back({.first_sample = std::ssize(outcome.samples.seconds),
                                        .samples = 1,
                                        .median_seconds = is_slow ? slow_step : 1,
                                        .roof_rate = is_slow ? slow_probe : 1e9});
      outcome.samples.seconds.push_back(outcome.samples.chunks.back().median_seconds);
    }
    hardware::RoofGauge gauge{
        .peaks = {.link = 1}, .bound = workload::Bound::kLink, .calibrated_rate = 1, .name = "link"};
    EXPECT_TRUE(Evaluate(gauge, hardware::CacheState::kWarm, /*on_processors=*/true, outcome).ok());
    EXPECT_EQ(outcome.roof_ratios.size(), 8);
    return outcome.disturbed;
  };
  EXPECT_FALSE(is_disturbed(5, 1e9));
  EXPECT_TRUE(is_disturbed(5, 2e8));
}

TEST(Evaluate, ProcessorsThatOthersTakeGiveNoShare) {
  const auto is_disturbed = [](double others, double stolen, bool on_processors) {
    Outcome outcome = Reading(9e9, std::vector<double>(8, 1e10));
    outcome.conditions.others_share = others;
    outcome.conditions.stolen_share = stolen;
    EXPECT_TRUE(Judge(outcome, on_processors).ok());
    return outcome.disturbed;
  };
  EXPECT_TRUE(is_disturbed(0.6, 0, true));
  EXPECT_TRUE(is_disturbed(0.3, 0.3, true)) << "a hypervisor takes them too";
  EXPECT_FALSE(is_disturbed(0.4, 0, true)) << "noise, which leaves the probes most of the processors";
  EXPECT_FALSE(is_disturbed(0.9, 0, false)) << "the probes run on a GPU";
  Outcome unknown = Reading(9e9, std::vector<double>(8, 0));
  unknown.conditions.others_share = 0.9;
  EXPECT_TRUE(Judge(unknown).ok());
  EXPECT_FALSE(unknown.disturbed) << "there is no share to disturb";
}

TEST(NeedsRemeasurement, OnlyOnAQuietMachine) {
  const auto needs = [](double bytes, double others, double stolen) {
    Outcome outcome = Reading(bytes, std::vector<double>(8, 1e10));
    outcome.conditions.others_share = others;
    outcome.conditions.stolen_share = stolen;
    EXPECT_TRUE(Judge(outcome).ok());
    return NeedsRemeasurement(outcome);
  };
  EXPECT_FALSE(needs(1.02e10, 0, 0));
  EXPECT_TRUE(needs(1.04e10, 0, 0));
  EXPECT_TRUE(needs(1.1e10, 0, 0)) << "disturbed";
  EXPECT_TRUE(needs(1.1e10, 0.02, 0.02));
  EXPECT_FALSE(needs(1.1e10, 0.03, 0.03));
  Outcome scattered = Reading(5e9, {1e10, 2e9, 1e10, 2e9, 1e10, 2e9, 1e10, 2e9});
  EXPECT_TRUE(Judge(scattered).ok());
  EXPECT_TRUE(NeedsRemeasurement(scattered)) << "its probes disagree";
}

}  // namespace
}  // namespace roofbench
