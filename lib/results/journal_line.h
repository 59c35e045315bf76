// SPDX-License-Identifier: Apache-2.0
// A finished case as a line of the journal, and back.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lib/results/outcome.h"

namespace roofbench {

// JSON without a line break.
std::string JournalLine(const Outcome& outcome);

// All that the reporters and the fits of a run need of the case, to the last bit; not its cost, parameters or figures,
// which are in the counters. InvalidArgument for what is no such line.
absl::StatusOr<Outcome> ParseJournalLine(const std::string& line);

}  // namespace roofbench
