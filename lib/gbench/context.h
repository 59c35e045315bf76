// SPDX-License-Identifier: Apache-2.0
// The facts that stand above the rows of a result: keys and texts, each key once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace roofbench {

using ContextFacts = std::vector<std::pair<std::string, std::string>>;

// "KEY=VALUE,KEY=VALUE", the value of --benchmark_context. InvalidArgument for what is no such list, or would be no
// text in a result.
absl::StatusOr<ContextFacts> ParseContext(const std::string& text);

// Whether results have a fact of that name from Google Benchmark, or from us outside the facts of a run.
bool IsWrittenByLibrary(const std::string& key);

// Whether the keys differ from each other, from those that Google Benchmark writes, and from those of `facts` and of
// the measured roofs, which are known later. InvalidArgument names the first that does not: a doubled key makes a
// result that no reader takes.
absl::Status CheckContextKeys(const ContextFacts& given, const ContextFacts& facts);

}  // namespace roofbench
