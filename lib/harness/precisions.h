// Which precision generates tokens fastest here, and what each costs: the cases that differ in it alone, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/harness/outcome.h"

namespace roofbench {

// What a precision is chosen by: the counters of one case that generates tokens.
struct Serving {
  std::string work;       // the name without the precision: "generate/model:llama3_1b/prompt:32/new:8"
  std::string precision;  // "int8"
  double first_token_ms = 0;
  double next_token_ms = 0;
  double next_token_p95_ms = 0;
  double tokens_per_second = 0;
  double model_bytes = 0;
};

// nullopt where the case was not measured, has no axis `precision`, or generates nothing after a first token.
std::optional<Serving> ServingOf(const Outcome& outcome);

// A table a piece of work with two precisions or more, the fastest first, and which one to take; empty if there is
// none.
std::string DescribePrecisions(const std::vector<Serving>& servings);

}  // namespace roofbench
