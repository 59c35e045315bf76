#include "lib/harness/precisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench {
namespace {

using testing::HasSubstr;

Outcome Generated(std::string name, double tokens_per_second, double bytes) {
  Outcome outcome;
  outcome.name = std::move(name);
  outcome.counters = {{"ttft_ms", 80},
                      {"itl_ms", 1e3 / tokens_per_second},
                      {"itl_p95_ms", 2e3 / tokens_per_second},
                      {"tokens/s", tokens_per_second},
                      {"model_bytes", bytes}};
  return outcome;
}

TEST(Precisions, TheFastestComesFirstAndIsNamed) {
  std::vector<Serving> servings;
  for (const Outcome& outcome : {Generated("generate/model:a/precision:bf16/new:8", 50, 4e9),
                                 Generated("generate/model:b/precision:bf16/new:8", 70, 4e9),
                                 Generated("generate/model:a/precision:int8/new:8", 100, 2e9),
                                 Generated("generate/model:a/precision:int4/new:8", 125, 1e9)}) {
    servings.push_back(ServingOf(outcome).value());
  }
  EXPECT_EQ(servings[0].work, "generate/model:a/new:8");
  const std::string text = DescribePrecisions(servings);
  EXPECT_THAT(text, HasSubstr("fastest here: int4, 1.25x the tokens/s of int8 at 0.50 of its bytes"));
  EXPECT_LT(text.find("int4  "), text.find("int8  "));
  EXPECT_LT(text.find("int8  "), text.find("bf16  "));
  EXPECT_THAT(text, HasSubstr("20.0 ms")) << "the p95 of int8";
  EXPECT_THAT(text, Not(HasSubstr("model:b"))) << "one precision alone is no choice";
}

TEST(Precisions, CasesWithoutAChoiceAreLeftOut) {
  EXPECT_FALSE(ServingOf(Generated("generate/model:a/new:8", 50, 1)).has_value());
  EXPECT_FALSE(ServingOf(Generated("generate/precision:bf16", 0, 1)).has_value());
  Outcome failed = Generated("generate/precision:bf16/new:8", 50, 1);
  failed.verdict = Verdict::kFailed;
  EXPECT_FALSE(ServingOf(failed).has_value());
  EXPECT_EQ(DescribePrecisions({}), "");
}

}  // namespace
}  // namespace roofbench
