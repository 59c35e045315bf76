// SPDX-License-Identifier: Apache-2.0
// Facts that a user adds to the context of a result, next to those of the run and of Google Benchmark.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/results/journal.h"

namespace roofbench {

// Parses "KEY=VALUE,KEY=VALUE", the value of --benchmark_context. InvalidArgument if it is not such a list, or not
// valid text for a result.
absl::StatusOr<RunFacts> ParseContext(const std::string& text);

// Whether Google Benchmark writes a fact of that name to its JSON.
bool IsWrittenByLibrary(const std::string& key);

// Checks that the keys are unique and differ from those of Google Benchmark, of `facts` and of the measured roofs,
// which are known later. InvalidArgument names the first conflict: readers reject a result with a duplicate key.
absl::Status CheckContextKeys(const RunFacts& given, const RunFacts& facts);

}  // namespace roofbench
