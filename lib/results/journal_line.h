// SPDX-License-Identifier: Apache-2.0
// Converts a finished case to a line of the journal and back.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lib/results/outcome.h"

namespace roofbench {

// JSON without a line break.
std::string JournalLine(const Outcome& outcome);

// A line of a journal nests no deeper.
inline constexpr int kMostJournalDepth = 50;

// Everything that the reporters and fits of a run need from the case, bit for bit; not its cost, parameters or figures,
// which are in the counters. InvalidArgument for any other line, or for values that a run never writes and that
// `tools/report` refuses: negative or endless seconds, no seconds, huge counters, names that are invalid in a result.
absl::StatusOr<Outcome> ParseJournalLine(const std::string& line);

}  // namespace roofbench
