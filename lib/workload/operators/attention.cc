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

double Attention::AllScores() const { return batch * heads * queries * keys; }

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
double Attention::MaskBytes() const { return causal ? queries * keys : 0; }
double Attention::TableBytes() const { return page == 0 ? 0 : batch * std::ceil(keys / page) * sizeof(int32_t); }
double Attention::ProductFlops() const { return 2 * head_dim; }

Cost Attention::FusedCost() const {
  Operation products{.bytes_read = QueryBytes() + 2 * KeyBytes() + TableBytes(), .bytes_written = QueryBytes()};
  products.flops[Index(dtype)] = 2 * ProductFlops() * SeenScores();
  Operation softmax;
  softmax.flops[Index(Dtype::kFp32)] = Softmax::kFlops * SeenScores();
  return {.operations = {products, softmax}, .resident_bytes = products.Bytes()};
}

Cost Attention::NaiveCost() const {
  const double square = AllScores() * ElementBytes(dtype);
  Operation scores{.bytes_read = QueryBytes() + KeyBytes(), .bytes_written = square, .component = "scores"};
  scores.flops[Index(dtype)] = ProductFlops() * AllScores();
  Operation softmax = Softmax{.rows = AllScores() / keys, .cols = keys, .dtype = dtype}.Forward();
  softmax.component = "softmax";
  Operation sum{.bytes_read = square + KeyBytes(), .bytes_written = QueryBytes(), .component = "weighted_sum"};
  sum.flops[Index(dtype)] = ProductFlops() * AllScores();
  // q, y before and after the update, k and v; scores and weights.
  const double resident = 3 * QueryBytes() + 2 * KeyBytes() + 2 * square + MaskBytes();
  return {.operations = {scores, softmax, sum}, .resident_bytes = resident};
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
  Operation products{.bytes_read = 2 * vectors + QueryBytes() + logarithms, .bytes_written = vectors + KeyBytes()};
  products.flops[Index(dtype)] = 5 * ProductFlops() * SeenScores();
  Operation softmax;
  // The operands of the sum over a row: dy · y, once per query.
  softmax.flops[Index(Dtype::kFp32)] =
      Softmax::kGradientFlops * SeenScores() + ProductFlops() * batch * heads * queries;
  return {.operations = {products, softmax}, .resident_bytes = products.Bytes()};
}

Cost Attention::NaiveBackwardCost() const {
  const double square = AllScores() * ElementBytes(dtype);
  const double vectors = QueryBytes() + KeyBytes();
  Operation sum{
      .bytes_read = square + vectors, .bytes_written = square + KeyBytes(), .component = "weighted_sum"};  // dv, dp
  sum.flops[Index(dtype)] = 2 * ProductFlops() * AllScores();
  Operation softmax = Softmax{.rows = AllScores() / keys, .cols = keys, .dtype = dtype}.Backward();
  softmax.component = "softmax";
  Operation scores{.bytes_read = square + vectors, .bytes_written = vectors, .component = "scores"};  // dq, dk
  scores.flops[Index(dtype)] = 2 * ProductFlops() * AllScores();
  // q, k, v, y, dy and dv with weights, their gradients and those of scores; then dq and dk without the second square.
  const double resident = 3 * vectors + 2 * square + MaskBytes() + std::max(square, vectors);
  return {.operations = {sum, softmax, scores}, .resident_bytes = resident};
}

Cost Attention::FusedForwardBackwardCost() const { return InSequence(FusedCost(), FusedBackwardCost()); }
Cost Attention::NaiveForwardBackwardCost() const {
  Cost backward = NaiveBackwardCost();
  backward.resident_bytes += QueryBytes();  // y is recomputed
  return InSequence(NaiveCost(), backward);
}

}  // namespace roofbench::workload
