// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "lib/workload/operators/rows.h"

namespace roofbench::workload {

namespace {

Cost InSequence(Cost first, const Cost& second) {
  const double resident = std::max(first.resident_bytes, second.resident_bytes);
  first += second;
  first.resident_bytes = resident;
  return first;
}

}  // namespace

double Attention::SeenScores() const {
  if (!causal) return AllScores();
  // The last query sees all keys, each earlier one a key fewer, down to none.
  const double some = std::min(queries, keys);
  return batch * heads * (some * keys - some * (some - 1) / 2);
}

double Attention::QueryBytes() const {
  return batch * heads * queries * head_dim * ElementBytes(dtype == Dtype::kInt8 ? Dtype::kFp32 : dtype);
}
double Attention::KeyBytes() const {
  const double factor = dtype == Dtype::kInt8 ? ElementBytes(Dtype::kFp32) : 0;
  return batch * kv_heads * keys * (head_dim * ElementBytes(dtype) + factor);
}
double Attention::TableBytes() const { return page == 0 ? 0 : batch * std::ceil(keys / page) * sizeof(int32_t); }

Cost Attention::FusedCost() const {
  Cost cost = InOperands({.bytes_read = QueryBytes() + 2 * KeyBytes() + TableBytes(), .bytes_written = QueryBytes()});
  cost.operations = {cost.operations.front().WithFlops(dtype, 2 * ProductFlops() * SeenScores()),
                     Operation().WithFlops(Dtype::kFp32, Softmax::kFlops * SeenScores())};
  return cost;
}

Cost Attention::NaiveCost() const {
  const double square = AllScores() * ElementBytes(dtype);
  const Operation scores{.bytes_read = QueryBytes() + KeyBytes(), .bytes_written = square, .component = "scores"};
  Operation softmax = Softmax{.rows = AllScores() / keys, .cols = keys, .dtype = dtype}.Forward();
  softmax.component = "softmax";
  const Operation sum{.bytes_read = square + KeyBytes(), .bytes_written = QueryBytes(), .component = "weighted_sum"};
  const double product = ProductFlops() * AllScores();
  // q, y before and after the update, k and v; scores and weights.
  const double resident = 3 * QueryBytes() + 2 * KeyBytes() + 2 * square + MaskBytes();
  return {.operations = {scores.WithFlops(dtype, product), softmax, sum.WithFlops(dtype, product)},
          .resident_bytes = resident};
}

Cost Attention::CompiledCost() const {
  Cost cost = NaiveCost();
  const double square = AllScores() * ElementBytes(dtype);
  // Exponentials in fp32 replace scores in fp32 in place, and the weights replace them; 16-bit tensors cannot share
  // memory this way.
  const double squares = dtype == Dtype::kFp32 ? square : 2 * square + AllScores() * ElementBytes(Dtype::kFp32);
  const double row_statistics = 2 * batch * heads * queries * ElementBytes(Dtype::kFp32);
  cost.resident_bytes = 3 * QueryBytes() + 2 * KeyBytes() + squares + row_statistics;
  return cost;
}

Cost Attention::FusedBackwardCost() const {
  const double vectors = QueryBytes() + KeyBytes();
  const double logarithms = batch * heads * queries * ElementBytes(Dtype::kFp32);
  Cost cost =
      InOperands({.bytes_read = 2 * vectors + QueryBytes() + logarithms, .bytes_written = vectors + KeyBytes()});
  // The operands of the sum over a row: dy · y, once per query.
  const double softmax = Softmax::kGradientFlops * SeenScores() + ProductFlops() * batch * heads * queries;
  cost.operations = {cost.operations.front().WithFlops(dtype, 5 * ProductFlops() * SeenScores()),
                     Operation().WithFlops(Dtype::kFp32, softmax)};
  return cost;
}

Cost Attention::NaiveBackwardCost() const {
  const double square = AllScores() * ElementBytes(dtype);
  const double vectors = QueryBytes() + KeyBytes();
  const double products = 2 * ProductFlops() * AllScores();
  const Operation sum{
      .bytes_read = square + vectors, .bytes_written = square + KeyBytes(), .component = "weighted_sum"};  // dv, dp
  Operation softmax = Softmax{.rows = AllScores() / keys, .cols = keys, .dtype = dtype}.Backward();
  softmax.component = "softmax";
  const Operation scores{.bytes_read = square + vectors, .bytes_written = vectors, .component = "scores"};  // dq, dk
  // q, k, v, y, dy and dv with weights, their gradients and those of scores; then dq and dk without the second square.
  const double resident = 3 * vectors + 2 * square + MaskBytes() + std::max(square, vectors);
  return {.operations = {sum.WithFlops(dtype, products), softmax, scores.WithFlops(dtype, products)},
          .resident_bytes = resident};
}

Cost Attention::FusedForwardBackwardCost() const { return InSequence(FusedCost(), FusedBackwardCost()); }
Cost Attention::NaiveForwardBackwardCost() const {
  Cost backward = NaiveBackwardCost();
  backward.resident_bytes += QueryBytes();  // y is recomputed
  return InSequence(NaiveCost(), backward);
}

}  // namespace roofbench::workload
