// SPDX-License-Identifier: Apache-2.0
// A finished case as a line of the journal, and back.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/results/outcome.h"

namespace roofbench {

// JSON without a line break.
std::string JournalLine(const Outcome& outcome);

// Whether the text nests deeper than any line of a journal: a stranger's may end the process that copies it.
bool IsNestedDeeply(std::string_view json);

// All that the reporters and the fits of a run need of the case, to the last bit; not its cost, parameters or figures,
// which are in the counters. InvalidArgument for what is no such line, or holds what no run writes: negative seconds,
// none at all, names that would not be names in a result.
absl::StatusOr<Outcome> ParseJournalLine(const std::string& line);

}  // namespace roofbench
