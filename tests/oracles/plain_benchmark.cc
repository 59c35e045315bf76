// SPDX-License-Identifier: Apache-2.0
// The steps of three cases of the suite in plain Google Benchmark, as its documentation shows it: a lower bound for the
// repeatability of roofbench's medians. `tests/oracles/measure.py spread` runs both. Shares no code with the product.

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

namespace {

void Matmul(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  const int64_t n = state.range(0);
  const at::Tensor a = at::randn({n, n});
  const at::Tensor b = at::randn({n, n});
  at::Tensor c = at::empty({n, n});
  for ([[maybe_unused]] auto iteration : state) at::mm_out(c, a, b);
}

void Gelu(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({state.range(0)}).to(at::kBFloat16);
  at::Tensor y = at::empty_like(x);
  for ([[maybe_unused]] auto iteration : state) at::gelu_out(y, x);
}

void Copy(benchmark::State& state) {
  const at::Tensor x = at::randn({state.range(0) / 4});
  const at::Tensor y = at::empty_like(x);
  for ([[maybe_unused]] auto iteration : state) y.copy_(x);
}

// Real time: a step runs on several threads.
BENCHMARK(Matmul)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Gelu)->Arg(1 << 24)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Copy)->Arg(1 << 28)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
