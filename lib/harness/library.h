// Where Google Benchmark 1.7 and 1.9 differ, and where its rows meet our outcomes.
#pragma once

#include <benchmark/benchmark.h>

#include <string>

#include "lib/harness/session.h"

namespace roofbench {

using LibraryRun = benchmark::BenchmarkReporter::Run;

// Whether the library's --benchmark_min_time takes a unit: 1.9 warns without one, 1.7 knows none and complains about
// one.
template <typename State = benchmark::State>
constexpr bool MinTimeHasUnit() {
  return requires(State & state) { state.SkipWithMessage(""); };
}

// Appended by the library to the names of cases with manual time.
inline constexpr char kManualTimeSuffix[] = "/manual_time";

// The case's own name of a library row: without the suffix, and without the aggregate's.
std::string CaseName(const LibraryRun& run);

// Whether the row is an error (1.7) or was skipped with one (1.9), and its message.
bool IsError(const LibraryRun& run);
std::string ErrorMessage(const LibraryRun& run);

// The measured outcome behind a row of one repetition; nullptr for aggregates.
const Outcome* OutcomeOf(const LibraryRun& run, const Session& session);

// The row as it is written: cpu_time is the process's CPU time a step (the library would count warm-up and roof
// slices), and nothing that is not finite is left, because JSON has no way to say it.
LibraryRun Corrected(const LibraryRun& run, const Session& session);

}  // namespace roofbench
