// SPDX-License-Identifier: Apache-2.0
// Where Google Benchmark 1.7 and 1.9 differ, and where its rows meet our outcomes.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>

#include "lib/run/session.h"

namespace roofbench {

using LibraryRun = benchmark::BenchmarkReporter::Run;

// Whether the library's --benchmark_min_time takes a unit: 1.9 warns without one, 1.7 knows none and complains about
// one.
template <typename State = benchmark::State>
constexpr bool MinTimeHasUnit() {
  return requires(State & state) { state.SkipWithMessage(""); };
}

// The place in the plan of a row's case: cases are registered in the order of the plan, each as a family of its own.
std::size_t PlanIndex(const LibraryRun& run);

// Whether the row is an error (1.7) or was skipped with one (1.9), and its message.
bool IsError(const LibraryRun& run);
std::string ErrorMessage(const LibraryRun& run);

// The message of a row whose case has no result: "failed: …".
std::string ErrorMessageOf(const Outcome& outcome);

// The measured outcome behind a row of one repetition; nullptr for aggregates.
const Outcome* OutcomeOf(const LibraryRun& run, const Session& session);

// The row as it is written: its name is the key of the case, without what the library appends for manual time; cpu_time
// is the process's CPU time a step (the library would count warm-up and roof probes), a measured repetition has its
// figures whatever the library heard of it, and nothing that is not finite is left, because JSON has no way to say it.
LibraryRun Corrected(const LibraryRun& run, const Session& session);

}  // namespace roofbench
