// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/sampled_rows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randperm.h>

#include <tuple>
#include <utility>
#include <vector>

#include "lib/aten/random.h"

namespace roofbench {
namespace {

struct Sampled {
  c10::weak_intrusive_ptr<c10::TensorImpl> sampled;
  int64_t rows = 0;
};

std::vector<Sampled>& AllKept() {
  static auto& all = *new std::vector<Sampled>();
  return all;
}

}  // namespace

at::Tensor SampleRowNumbers(int64_t rows, int64_t most, at::Generator& generator) {
  if (rows <= most) return at::arange(rows, at::kLong);
  return std::get<0>(at::randperm(rows, generator, at::kLong).narrow(0, 0, most).sort());
}

void KeepSampledRows(const at::Tensor& sampled, int64_t rows) {
  std::erase_if(AllKept(), [](const Sampled& one) { return one.sampled.expired(); });
  if (sampled.numel() < rows) AllKept().push_back({c10::weak_intrusive_ptr(sampled.getIntrusivePtr()), rows});
}

void DrawSampledRows(std::mt19937_64& random) {
  const at::NoGradGuard no_grad;
  for (const Sampled& one : AllKept()) {
    const auto sampled = one.sampled.lock();
    if (!sampled) continue;
    at::Tensor numbers(sampled);
    at::Generator generator = NewGenerator(at::kCPU, random());
    numbers.copy_(SampleRowNumbers(one.rows, numbers.numel(), generator));
  }
}

}  // namespace roofbench
