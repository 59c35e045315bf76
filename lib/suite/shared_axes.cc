// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/shared_axes.h"

#include <utility>

namespace roofbench {
namespace {

constexpr std::pair<const char*, const char*> kDocs[] = {
    {kImplAxis, "who does the work"},
    {kDtypeAxis, "what tensors are stored and computed in; bf16_autocast: products in bf16 over fp32 storage"},
    {kPrecisionAxis,
     "how weights are stored; int8 has a scale a row, int4 a scale and a zero a group, both with bf16 activations; "
     "llm_int8 has int8 activations too, outlier columns in 16 bits"},
    {kPassAxis,
     "what is timed: forward (recording gradients as training does), inference (not recording), backward, "
     "forward_backward, step (with the optimizer)"},
    {kCacheAxis, "cold: operands come from memory; warm: as the last step left them"},
};

}  // namespace

std::string SharedAxisDoc(const std::string& axis) {
  for (const auto& [name, doc] : kDocs) {
    if (axis == name) return doc;
  }
  return {};
}

AxisSpec SharedAxis(const char* name, std::vector<std::string> choices, std::string default_value, std::string doc) {
  return {
      .name = name, .choices = std::move(choices), .default_value = std::move(default_value), .doc = std::move(doc)};
}

ComputeAndStorage DtypesOf(const Point& point) {
  using workload::Dtype;
  if (point.Text(kDtypeAxis) == kBf16Autocast) return {Dtype::kBf16, Dtype::kFp32};
  const Dtype dtype = point.Dtype();
  return {dtype, dtype == Dtype::kTf32 ? Dtype::kFp32 : dtype};
}

}  // namespace roofbench
