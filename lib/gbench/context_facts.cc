// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/context_facts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr std::size_t kLongestFact = 4096;  // limit of tools/report
constexpr std::size_t kMostFacts = 100;

// Keys of Google Benchmark 1.7 and 1.9.
constexpr std::string_view kTakenKeys[] = {
    "date",         "host_name", "executable", "num_cpus",        "mhz_per_cpu",        "cpu_scaling_enabled",
    "aslr_enabled", "caches",    "load_avg",   "library_version", "library_build_type", "json_schema_version",
    "dry_run"};
constexpr char kRoofKey[] = "roof_";

}  // namespace

absl::StatusOr<RunFacts> ParseContext(const std::string& text) {
  RunFacts facts;
  const std::vector<std::string> pieces = absl::StrSplit(text, ',');
  for (const std::string& piece : pieces) {
    const std::size_t equals = piece.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgumentError("expected KEY=VALUE,KEY=VALUE");
    }
    if (!IsPrintable(piece)) {
      return InvalidArgumentError("expected UTF-8 without control characters");
    }
    if (piece.size() > kLongestFact)
      return InvalidArgumentError(StrCat("expected at most ", kLongestFact, " bytes per fact"));
    facts.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
  }
  return facts;
}

bool IsWrittenByLibrary(const std::string& key) { return std::ranges::find(kTakenKeys, key) != std::end(kTakenKeys); }

absl::Status CheckContextKeys(const RunFacts& given, const RunFacts& facts) {
  std::set<std::string> keys;
  for (const auto& [key, value] : facts) keys.insert(key);
  if (given.size() > kMostFacts)
    return InvalidArgumentError(StrCat("--benchmark_context: expected at most ", kMostFacts, " facts"));
  for (const auto& [key, value] : given) {
    if (IsWrittenByLibrary(key) || absl::StartsWith(key, kRoofKey) || !keys.insert(key).second) {
      return InvalidArgumentError(
          StrCat("--benchmark_context: ", key, " is in every result, or given twice; choose another key"));
    }
  }
  return absl::OkStatus();
}

}  // namespace roofbench
