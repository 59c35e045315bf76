// SPDX-License-Identifier: Apache-2.0
// Converts a finished case to a line of the journal and back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "lib/results/outcome.h"

namespace roofbench {

// JSON without a line break.
std::string JournalLine(const Outcome& outcome);

// Throws std::exception for invalid JSON, and for JSON that nests deeper than any line of a journal: copying that could
// overflow the stack.
nlohmann::ordered_json ParseUntrusted(const std::string& text);

// Everything that the reporters and fits of a run need from the case, bit for bit; not its cost, parameters or figures,
// which are in the counters. InvalidArgument for any other line, or for values that a run never writes: negative
// seconds, no seconds, names that are invalid in a result.
absl::StatusOr<Outcome> ParseJournalLine(const std::string& line);

}  // namespace roofbench
