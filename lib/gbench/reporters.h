// SPDX-License-Identifier: Apache-2.0
// Google Benchmark's own reporters, given what its runs lack: see docs/decisions/one_iteration.md.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "lib/results/outcome.h"
#include "lib/run/session.h"

namespace roofbench {

using benchmark::BenchmarkReporter;

// "failed: …", "skipped: …": why an outcome has no figures, as one printable line. Empty for a measured one.
std::string WhyUnmeasured(const Outcome& outcome);

// Gives the library what it reports of a repetition: time, label and counters, or why there are none. Call this in the
// registered benchmark, whose loop it runs. `is_first_of_several`: the library aggregates repetitions only if their
// first one has figures, and would crash otherwise, so it learns of a failure there from ResultRuns.
void ReportTo(benchmark::State& state, const Outcome& outcome, bool is_first_of_several);

// The runs of a case as results have them: the name as in the plan, processor time over all threads, the reasons of
// repetitions without figures; without interrupted repetitions, and without aggregates of fewer than two.
std::vector<BenchmarkReporter::Run> ResultRuns(const Session& session, const std::vector<BenchmarkReporter::Run>& runs);

// A reporter of the library for a whole file: "json", "csv" or "console". It writes to `out` when all cases have ended:
// an earlier process of the run may have ended at a crash, and the library's CSV stops the program at a counter that
// its first case did not have. Numbers in CSV have all their digits.
std::unique_ptr<BenchmarkReporter> MakeFileReporter(const std::string& format, bool counters_tabular,
                                                    const Session& session, std::ostream& out);

}  // namespace roofbench
