#include "lib/models/stored_matrix.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include "absl/strings/str_cat.h"
#include "lib/models/llm_int8.h"
#include "lib/models/random_fill.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

// Normal int8 values have a deviation of 32 (FillRandom).
constexpr double kInt8Deviation = 32;
constexpr double kLlmInt8Largest = 127;
constexpr double kInt8Half = 127.5;

}  // namespace

at::ScalarType PlainType(WeightFormat format) {
  switch (workload::ActivationDtype(format)) {
    case workload::Dtype::kFp32:
      return at::kFloat;
    case workload::Dtype::kFp16:
      return at::kHalf;
    default:
      return at::kBFloat16;
  }
}

absl::Status StoredMatrix::Check(WeightFormat format, int64_t columns, int64_t group) {
  if (format != WeightFormat::kInt4) return absl::OkStatus();
  if (group != 32 && group != 64 && group != 128 && group != 256) {
    return absl::UnimplementedError(absl::StrCat("int4 goes in groups of 32, 64, 128 or 256, not of ", group));
  }
  if (columns % group != 0) {
    return absl::UnimplementedError(
        absl::StrCat("int4 in groups of ", group, " cannot hold rows of ", columns, ", which is no multiple"));
  }
  return absl::OkStatus();
}

StoredMatrix StoredMatrix::Empty(WeightFormat format, int64_t experts, int64_t rows, int64_t columns, int64_t group) {
  StoredMatrix made{.format = format, .experts = experts, .rows = rows, .columns = columns, .group = group};
  switch (format) {
    case WeightFormat::kInt8:
    case WeightFormat::kLlmInt8:
      made.weight = at::empty({experts, rows, columns}, at::kChar);
      made.scale = at::empty({experts, rows}, at::kFloat);
      break;
    case WeightFormat::kInt4:
      TORCH_CHECK(false, "int4");
      break;
    default:
      made.weight = at::empty({experts, rows, columns}, PlainType(format));
  }
  return made;
}

void StoredMatrix::Store(int64_t expert, int64_t first_row, const at::Tensor& values) {
  const at::Tensor rows_of_weight = weight[expert].narrow(0, first_row, values.size(0));
  if (format == WeightFormat::kInt8) {
    const at::Tensor exact = values.to(at::kFloat);
    const at::Tensor scales =
        (at::amax(exact.abs(), {1}) / kInt8Half).clamp_min_(std::numeric_limits<float>::epsilon());
    rows_of_weight.copy_((exact / scales.unsqueeze(1)).round_().clamp_(-128, 127));
    scale[expert].narrow(0, first_row, values.size(0)).copy_(scales);
  } else if (format == WeightFormat::kLlmInt8) {
    const LlmInt8Weight quantised = QuantiseLlmInt8(values);
    rows_of_weight.copy_(quantised.weight);
    scale[expert].narrow(0, first_row, values.size(0)).copy_(quantised.row_max);
  } else {
    rows_of_weight.copy_(values);
  }
}

void StoredMatrix::FillRandom(uint64_t seed, double deviation) {
  models::FillRandom(weight, seed, deviation);
  if (format == WeightFormat::kInt8) scale.fill_(deviation / kInt8Deviation);
  if (format == WeightFormat::kLlmInt8) scale.fill_(deviation / kInt8Deviation * kLlmInt8Largest);
}

at::Tensor StoredMatrix::Dequantised(int64_t expert, at::ScalarType type) const {
  const at::Tensor stored = weight[expert];
  switch (format) {
    case WeightFormat::kInt8:
      return (stored.to(at::kFloat) * scale[expert].unsqueeze(1)).to(type);
    case WeightFormat::kLlmInt8:
      return (stored.to(at::kFloat) * (scale[expert] / kLlmInt8Largest).unsqueeze(1)).to(type);
    default:
      return stored.to(type);
  }
}

at::Tensor StoredMatrix::Apply(const at::Tensor& x, int64_t expert, double threshold) const {
  switch (format) {
    case WeightFormat::kInt8:
      // Whole numbers up to 128 are exact in bf16: the scales come afterwards.
      return at::linear(x, weight[expert].to(x.scalar_type())).to(at::kFloat).mul_(scale[expert]).to(x.scalar_type());
    case WeightFormat::kLlmInt8:
      return LlmInt8Linear(x, {weight[expert], scale[expert]}, threshold);
    case WeightFormat::kInt4:
      return at::linear(x, Dequantised(expert, x.scalar_type()));
    default:
      return at::linear(x, weight[expert]);
  }
}

int64_t StoredMatrix::nbytes() const {
  return static_cast<int64_t>(weight.nbytes()) + (scale.defined() ? static_cast<int64_t>(scale.nbytes()) : 0);
}

}  // namespace roofbench::models
