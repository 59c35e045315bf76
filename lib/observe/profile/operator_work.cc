// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/operator_work.h"

#include <algorithm>
#include <iterator>

#include "lib/workload/operators/rows.h"

namespace roofbench::observe {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

struct KindRow {
  std::string_view part;
  WorkKind kind;
};
// The first row whose part occurs in the lower-case name.
constexpr KindRow kKinds[] = {
    {"scaled_dot_product", WorkKind::kAttention},
    {"flash", WorkKind::kAttention},
    {"fmha", WorkKind::kAttention},
    {"roofbench::attention", WorkKind::kAttention},
    {"roofbench::decode_attention", WorkKind::kAttention},
    {"softmax", WorkKind::kSoftmax},
    {"gemm", WorkKind::kProduct},
    {"gemv", WorkKind::kProduct},
    {"cutlass", WorkKind::kProduct},
    {"linear", WorkKind::kProduct},
    {"llm_int8 product", WorkKind::kProduct},
    {"matmul", WorkKind::kProduct},
    {"::mm", WorkKind::kProduct},
    {"::mv", WorkKind::kProduct},
    {"::bmm", WorkKind::kProduct},
    {"::addmm", WorkKind::kProduct},
    {"::addmv", WorkKind::kProduct},
    {"::baddbmm", WorkKind::kProduct},
    {"_int_mm", WorkKind::kProduct},
    {"_scaled_mm", WorkKind::kProduct},
    {"_grouped_mm", WorkKind::kProduct},
    {"pack_mm", WorkKind::kProduct},
    {"pack_gemm", WorkKind::kProduct},
    {"addbmm", WorkKind::kProduct},
};

double Elements(const std::vector<int64_t>& shape) {
  double elements = 1;
  for (const int64_t extent : shape) elements *= static_cast<double>(extent);
  return elements;
}

// One product of queries [batch, heads, queries, d] and keys [batch, kv heads, keys, d], arguments `first` and first
// + 1.
double ScoreFlops(const Shapes& shapes, std::size_t first) {
  if (shapes.size() < first + 2 || shapes[first].size() != 4 || shapes[first + 1].size() != 4) return 0;
  return 2 * Elements(shapes[first]) * static_cast<double>(shapes[first + 1][2]);
}

// x[m,k] · weight[k,n].
double ProductFlops(const Shapes& shapes) {
  if (shapes.size() < 2 || shapes[0].empty() || shapes[1].size() != 2) return 0;
  return 2 * Elements(shapes[0]) * static_cast<double>(shapes[1][1]);
}

// x[m,k] · weightᵀ[n,k], or a weight of n rows that packs several weights into a byte.
double LinearFlops(const Shapes& shapes) {
  if (shapes.size() < 2 || shapes[0].empty() || shapes[1].size() != 2) return 0;
  return 2 * Elements(shapes[0]) * static_cast<double>(shapes[1][0]);
}

double SoftmaxFlops(const Shapes& shapes) {
  return shapes.empty() || shapes[0].empty() ? 0 : workload::Softmax::kFlops * Elements(shapes[0]);
}

struct FlopRow {
  std::string_view name;
  double (*flops)(const Shapes&);
};
// Operators without a formula in the profiler. None of them calls one with a formula.
constexpr FlopRow kFlopRows[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", [](const Shapes& s) { return 2 * ScoreFlops(s, 0); }},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     [](const Shapes& s) { return 5 * ScoreFlops(s, 1); }},  // argument 0 is the gradient
    {"mkldnn::_linear_pointwise", LinearFlops},
    {"aten::_int_mm", ProductFlops},
    {"aten::_weight_int8pack_mm", LinearFlops},
    {"aten::_weight_int4pack_mm_for_cpu", LinearFlops},
    {"aten::_softmax", SoftmaxFlops},
};

struct TypeRow {
  std::string_view name;
  double bytes;
};
constexpr TypeRow kTypes[] = {{"float", 4},    {"double", 8},      {"c10::BFloat16", 2}, {"c10::Half", 2},
                              {"long int", 8}, {"long", 8},        {"int", 4},           {"short int", 2},
                              {"short", 2},    {"signed char", 1}, {"char", 1},          {"unsigned char", 1},
                              {"bool", 1},     {"int64_t", 8},     {"int32_t", 4},       {"c10::Float8_e4m3fn", 1}};

}  // namespace

std::string_view Name(WorkKind kind) {
  constexpr std::string_view kNames[] = {"product", "attention", "softmax", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

WorkKind KindOfWork(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  for (const KindRow& row : kKinds) {
    if (lower.find(row.part) != std::string::npos) return row.kind;
  }
  return WorkKind::kOther;
}

double OperatorFlops(std::string_view name, const Shapes& shapes, double known) {
  const auto* const row =
      std::find_if(std::begin(kFlopRows), std::end(kFlopRows), [&](const FlopRow& each) { return each.name == name; });
  return row == std::end(kFlopRows) ? known : row->flops(shapes);
}

double OperatorInputBytes(const Shapes& shapes, const std::vector<std::string>& types) {
  double bytes = 0;
  for (std::size_t i = 0; i < std::min(shapes.size(), types.size()); ++i) {
    const auto* const row =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& each) { return each.name == types[i]; });
    // A scalar argument has a type but no extents.
    if (row != std::end(kTypes) && !shapes[i].empty()) bytes += row->bytes * Elements(shapes[i]);
  }
  return bytes;
}

}  // namespace roofbench::observe
