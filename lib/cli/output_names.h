// SPDX-License-Identifier: Apache-2.0
// Names of the files that a run writes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/cli/options.h"

namespace roofbench {

// The journal that --resume continues: the given one, that next to a given --benchmark_out, or the newest incomplete
// one of --results, by its name. InvalidArgument if there is none.
absl::StatusOr<std::string> JournalToResume(const Options& options);

// Names the outputs that a run in --results leaves open: after its time and host, or as `journal`, which it resumes. A
// journal is next to the results unless those go to a device or a pipe. Creates nothing.
void NameOutputs(Options& options, const std::string& journal);

// Makes the folder of --results, and says on standard error which run in it is incomplete if this is a new one.
// Unavailable with the reason and the remedy.
absl::Status PrepareResults(const Options& options);

// The outputs that exist after a run, first the one that tools/report reads: the journal if this run has begun it, and
// the others if it has written them.
std::vector<std::string> WrittenFiles(const Options& options, bool journal_begun, bool written);

// How to continue the run of these options: empty if its journal says that it is complete.
std::string HowToContinue(const Options& options);

// Checks that all outputs are different files, and that none has the name of a file that the run creates alongside
// another output: <journal>.previous, names ending in .part. InvalidArgument names both files and the remedy.
absl::Status CheckOutputNames(const Options& options);

}  // namespace roofbench
