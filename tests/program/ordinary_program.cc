// SPDX-License-Identifier: Apache-2.0
// An ordinary program of Google Benchmark, for test_google_benchmark.py to hold ours against.
#include <benchmark/benchmark.h>

namespace {

void Measured(benchmark::State& state) {
  for ([[maybe_unused]] auto iteration : state) state.SetIterationTime(1e-3);
  state.counters["figure"] = 0.5;
  state.SetLabel("label");
}
BENCHMARK(Measured)->UseManualTime()->Iterations(1);

void Failed(benchmark::State& state) { state.SkipWithError("failed: on purpose"); }
BENCHMARK(Failed)->UseManualTime()->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
