// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/given_sampling.h"

#include <string>

#include "lib/gbench/flags.h"

namespace roofbench {
namespace {

models::SamplingOptions given;
constexpr char kGiven[] = "given";

const FlagRegistration kSamplingFlags(
    {.flags = {{"temperature", "NUMBER", Number(given.temperature),
                "sampling:given: divide logits by it; above 1 for more varied text"},
               {"top_k", "N", Whole<int64_t>(given.top_k, INT64_MIN, INT64_MAX),
                "sampling:given: draw from the N most likely tokens (0: from all)"},
               {"top_p", "SHARE", Number(given.top_p),
                "sampling:given: draw from the fewest most likely tokens with this total probability (1: from all)"},
               {"min_p", "SHARE", Number(given.min_p),
                "sampling:given: draw from tokens with at least this share of the highest probability (0: from all)"},
               {"repetition_penalty", "NUMBER", Number(given.repetition_penalty),
                "sampling:given: above 1 makes tokens of the prompt or the text less likely"},
               {"sampling_seed", "N", Whole<uint64_t>(given.seed, 0, UINT64_MAX),
                "sampling:given: seed of the draws; the same text each time"}},
     .check = [] { return models::CheckSampling(given); },
     .reads = [](const Point& at) { return at.Has("sampling") && at.Text("sampling") == kGiven; },
     .way_out = "--axis=sampling=given selects cases of generate and complete that read it"});

}  // namespace

std::optional<models::SamplingOptions> SamplingOf(std::string_view sampling) {
  return sampling == kGiven ? std::optional(given) : std::nullopt;
}

}  // namespace roofbench
