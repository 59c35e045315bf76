// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/given_sampling.h"

#include <string>

#include "absl/flags/flag.h"
#include "lib/gbench/flag_check.h"

ABSL_FLAG(double, temperature, 1, "sampling:given: logits are divided by it, above 1 for stranger texts");
ABSL_FLAG(int64_t, top_k, 0, "sampling:given: draw one of so many most likely tokens (0: of all)");
ABSL_FLAG(double, top_p, 1,
          "sampling:given: draw one of the fewest most likely tokens that have this probability together (1: of all)");
ABSL_FLAG(double, min_p, 0,
          "sampling:given: draw one of the tokens with at least this share of the most likely one's probability (0: of "
          "all)");
ABSL_FLAG(double, repetition_penalty, 1,
          "sampling:given: above 1 makes tokens that prompt or text have less likely (1: as likely as they are)");
ABSL_FLAG(uint64_t, sampling_seed, 0, "sampling:given: seed of what is drawn; the same text each time");

namespace roofbench {
namespace {

models::SamplingOptions FromFlags() {
  return {.temperature = absl::GetFlag(FLAGS_temperature),
          .top_k = absl::GetFlag(FLAGS_top_k),
          .top_p = absl::GetFlag(FLAGS_top_p),
          .min_p = absl::GetFlag(FLAGS_min_p),
          .repetition_penalty = absl::GetFlag(FLAGS_repetition_penalty),
          .seed = absl::GetFlag(FLAGS_sampling_seed)};
}

constexpr char kGiven[] = "given";

// Before anything is measured.
const FlagCheck kSampling([] { return models::CheckSampling(FromFlags()); });
const FlagUse kSamplingUse(
    {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "sampling_seed"},
    [](const Point& at) { return at.Has("sampling") && at.Text("sampling") == kGiven; },
    "generate and complete draw by it with --axis=sampling=given");

}  // namespace

std::optional<models::SamplingOptions> SamplingOf(std::string_view sampling) {
  return sampling == kGiven ? std::optional(FromFlags()) : std::nullopt;
}

}  // namespace roofbench
