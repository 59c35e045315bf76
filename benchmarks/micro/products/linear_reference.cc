// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/products/linear_reference.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

namespace roofbench {
namespace {

// Calls use(block of the weight) for all blocks.
template <typename Use>
void EachBlock(int64_t n, const ExactWeight& weight, Use use) {
  constexpr int64_t kBlock = 1024;
  for (int64_t first = 0; first < n; first += kBlock) use(weight(first, std::min(kBlock, n - first)));
}

}  // namespace

at::Tensor ExactProduct(const at::Tensor& x, int64_t n, const ExactWeight& weight) {
  std::vector<at::Tensor> columns;
  EachBlock(n, weight, [&](const at::Tensor& block) { columns.push_back(at::mm(x, block.t())); });
  return at::cat(columns, 1);
}

at::Tensor ExactProductSums(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor& rows)>& seen,
                            int64_t n, const ExactWeight& weight) {
  constexpr int64_t kBlock = 256;
  at::Tensor sums = at::zeros({x.size(1)}, x.options().dtype(at::kDouble));
  EachBlock(n, weight, [&](const at::Tensor& block) { sums.add_(block.sum(0)); });
  std::vector<at::Tensor> of_rows;
  for (const at::Tensor& rows : x.split(kBlock)) of_rows.push_back(at::mv(seen(rows), sums));
  return at::cat(of_rows);
}

}  // namespace roofbench
