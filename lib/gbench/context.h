// SPDX-License-Identifier: Apache-2.0
// The facts above the rows of a result: unique keys and their texts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace roofbench {

using ContextFacts = std::vector<std::pair<std::string, std::string>>;

// Parses "KEY=VALUE,KEY=VALUE", the value of --benchmark_context. InvalidArgument if it is not such a list, or not
// valid text for a result.
absl::StatusOr<ContextFacts> ParseContext(const std::string& text);

// Whether Google Benchmark, or our code outside the facts of a run, writes a fact of that name to results.
bool IsWrittenByLibrary(const std::string& key);

// Checks that the keys are unique and differ from those of Google Benchmark, of `facts` and of the measured roofs,
// which are known later. InvalidArgument names the first conflict: readers reject a result with a duplicate key.
absl::Status CheckContextKeys(const ContextFacts& given, const ContextFacts& facts);

}  // namespace roofbench
