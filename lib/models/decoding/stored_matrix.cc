// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/stored_matrix.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/aten/elements.h"
#include "lib/aten/products.h"
#include "lib/aten/random.h"
#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

// Normal int8 values have a deviation of 32 (FillRandom).
constexpr double kInt8Deviation = 32;
constexpr double kLlmInt8Largest = 127;
// Sixteen equally likely steps: their deviation in steps, and the distance of their middle from q = 8.
constexpr double kInt4Deviation = 4.6098;
constexpr double kInt4Middle = 0.5;
// The code of a group's zero.
constexpr double kInt4Center = 8;
// Fewer tokens are bound by the bytes of the weights, so that eager uses LibTorch's int8 kernel.
constexpr int64_t kFewTokens = 4;

// Whether LibTorch's kernel for processors is safe (see kPackedInt8Columns). Its kernel for GPUs, with a thread for
// each output, is slower than converting the weights.
bool TakesPackedProduct(const at::Tensor& x, const at::Tensor& weight) {
  if (!x.is_cpu()) return false;
  if (x.size(0) >= kFewTokens || x.scalar_type() != at::kBFloat16) return false;
  if (!IsPackedInt8Width(weight.size(1)) || !x.is_contiguous()) return false;
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kPackedInt8Alignment == 0;
}

// The groups of tiles as 32-bit words: [tiles, groups, 1 + group/8, rows of a tile].
at::Tensor Int4Words(const at::Tensor& bytes, int64_t columns, int64_t group) {
  return bytes.view(at::kInt).view({-1, columns / group, 1 + group / 8, kernels::kInt4TileRows});
}

// Quantizes rows into tiles from `packed` on. T: float or kernels::Bf16.
template <typename T>
void PackRows(const T* values, int64_t rows, int64_t columns, int64_t group, std::byte* packed) {
  std::vector<uint8_t> quantized(static_cast<std::size_t>(rows * columns));
  std::vector<kernels::Bf16> scales(static_cast<std::size_t>(rows * columns / group * 2));
  TorchThreads()(rows, [&](kernels::Range range) {
    kernels::QuantizeInt4(values, columns, group, quantized.data(), scales.data(), range);
  });
  TorchThreads()(kernels::Int4Tiles(rows), [&](kernels::Range tiles) {
    kernels::PackInt4(quantized.data(), scales.data(), rows, columns, group, packed, tiles);
  });
}

// Multiplies blocks of rows that fit in a cache once dequantized: whole matrices would be a second model in memory. On
// a GPU the launches of blocks would take longer than the product.
template <typename Product>
at::Tensor ByBlocks(const StoredMatrix& matrix, Product product) {
  constexpr int64_t kBlockElements = int64_t{1} << 22;
  constexpr int64_t kGrain = kernels::kInt4TileRows;
  if (!matrix.weight.is_cpu()) return product(0, matrix.rows);
  const int64_t block = std::max(kGrain, kBlockElements / matrix.columns / kGrain * kGrain);
  std::vector<at::Tensor> blocks;
  for (int64_t first = 0; first < matrix.rows; first += block) {
    blocks.push_back(product(first, std::min(block, matrix.rows - first)));
  }
  return blocks.size() == 1 ? blocks.front() : at::cat(blocks, 1);
}

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

absl::Status StoredMatrix::Check(WeightFormat format, int64_t rows, int64_t columns, int64_t group) {
  if (format != WeightFormat::kInt4) return absl::OkStatus();
  if (group != 32 && group != 64 && group != 128 && group != 256) {
    return absl::UnimplementedError(absl::StrCat("int4 goes in groups of 32, 64, 128 or 256, not of ", group));
  }
  if (rows % kernels::kInt4TileRows != 0) {
    return absl::UnimplementedError(absl::StrCat("int4 goes in tiles of 16 rows, of which ", rows, " is no multiple"));
  }
  if (columns % group != 0) {
    return absl::UnimplementedError(
        absl::StrCat("int4 in groups of ", group, " cannot hold rows of ", columns, ", which is no multiple"));
  }
  return absl::OkStatus();
}

absl::Status StoredMatrix::CheckDevice(WeightFormat format, at::Device device) {
  if (format != WeightFormat::kInt4 || device.is_cpu()) return absl::OkStatus();
  return absl::UnimplementedError("int4 weights lie in tiles of our CPU kernels; other precisions run on a GPU");
}

StoredMatrix StoredMatrix::Empty(WeightFormat format, int64_t experts, int64_t rows, int64_t columns, int64_t group,
                                 at::Device device) {
  StoredMatrix made{.format = format, .experts = experts, .rows = rows, .columns = columns, .group = group};
  const auto there = at::TensorOptions(device);
  switch (format) {
    case WeightFormat::kInt8:
    case WeightFormat::kLlmInt8:
      made.weight = at::empty({experts, rows, columns}, there.dtype(at::kChar));
      made.scale = at::empty({experts, rows}, there.dtype(at::kFloat));
      break;
    case WeightFormat::kInt4:
      made.weight = at::empty({experts, kernels::Int4Bytes(rows, columns, group)}, there.dtype(at::kByte));
      break;
    default:
      made.weight = at::empty({experts, rows, columns}, there.dtype(PlainType(format)));
  }
  if (device.is_cpu()) kernels::UseHugePages(made.weight.data_ptr(), made.weight.nbytes());
  return made;
}

void StoredMatrix::Store(int64_t expert, int64_t first_row, const at::Tensor& values) {
  const int64_t count = values.size(0);
  const auto to = kernels::Range{0, count};
  // The kernels take fp32 and bf16.
  const bool is_bf16 = values.scalar_type() == at::kBFloat16;
  const at::Tensor rows_in = (is_bf16 ? values : values.to(at::kFloat)).contiguous();
  const auto with_values = [&](auto quantize) {
    if (is_bf16) return quantize(reinterpret_cast<const kernels::Bf16*>(rows_in.const_data_ptr<at::BFloat16>()));
    return quantize(rows_in.const_data_ptr<float>());
  };
  switch (format) {
    case WeightFormat::kInt8: {
      const at::Tensor q = weight[expert].narrow(0, first_row, count);
      const at::Tensor s = scale[expert].narrow(0, first_row, count);
      with_values([&](const auto* from) {
        TorchThreads()(to.end, [&](kernels::Range range) {
          kernels::QuantizeInt8(from, columns, q.data_ptr<int8_t>(), s.data_ptr<float>(), range);
        });
      });
      return;
    }
    case WeightFormat::kInt4: {
      TORCH_CHECK(first_row % kernels::kInt4TileRows == 0, "int4 rows begin with a tile");
      auto* const tiles = reinterpret_cast<std::byte*>(weight[expert].data_ptr<uint8_t>()) +
                          first_row / kernels::kInt4TileRows * kernels::Int4TileBytes(columns, group);
      with_values([&](const auto* from) { PackRows(from, count, columns, group, tiles); });
      return;
    }
    case WeightFormat::kLlmInt8: {
      const LlmInt8Matrix quantized = QuantizeLlmInt8(values);
      weight[expert].narrow(0, first_row, count).copy_(quantized.weight);
      scale[expert].narrow(0, first_row, count).copy_(quantized.row_max);
      return;
    }
    default:
      weight[expert].narrow(0, first_row, count).copy_(values);
  }
}

void StoredMatrix::StoreCodes(int64_t expert, int64_t first_row, const at::Tensor& codes, const at::Tensor& scales,
                              const at::Tensor& zeros) {
  TORCH_CHECK(first_row % kernels::kInt4TileRows == 0, "int4 rows begin with a tile");
  const at::Tensor steps = scales.to(at::kBFloat16);
  const at::Tensor zero = zeros.neg().add_(kInt4Center).mul_(steps.to(at::kFloat)).to(at::kBFloat16);
  const at::Tensor pairs = at::stack({steps, zero}, 2);
  const at::Tensor spread = pairs.repeat_interleave(columns / group / scales.size(1), 1).contiguous();
  auto* const tiles = reinterpret_cast<std::byte*>(weight[expert].data_ptr<uint8_t>()) +
                      first_row / kernels::kInt4TileRows * kernels::Int4TileBytes(columns, group);
  const int64_t rows_in = codes.size(0);
  TorchThreads()(kernels::Int4Tiles(rows_in), [&](kernels::Range range) {
    kernels::PackInt4(codes.const_data_ptr<uint8_t>(), Elements<kernels::Bf16>(spread), rows_in, columns, group, tiles,
                      range);
  });
}

void StoredMatrix::FillRandom(uint64_t seed, double deviation) {
  roofbench::FillRandom(weight, seed, deviation);
  if (format == WeightFormat::kInt8) scale.fill_(deviation / kInt8Deviation);
  if (format == WeightFormat::kLlmInt8) scale.fill_(deviation / kInt8Deviation * kLlmInt8Largest);
  if (format == WeightFormat::kInt4) {
    const auto step = static_cast<float>(deviation / kInt4Deviation);
    const kernels::Bf16 zero = kernels::ToBf16(static_cast<float>(kInt4Middle) * step);
    const auto word = static_cast<int32_t>(kernels::ToBf16(step).bits | (static_cast<uint32_t>(zero.bits) << 16));
    Int4Words(weight, columns, group).select(2, 0).fill_(word);
  }
}

at::Tensor StoredMatrix::Dequantized(int64_t expert, int64_t first, int64_t count, at::ScalarType type) const {
  if (format == WeightFormat::kInt4) {
    TORCH_CHECK(first % kernels::kInt4TileRows == 0, "int4 rows begin with a tile");
    const int64_t whole = kernels::Int4Tiles(count) * kernels::kInt4TileRows;
    const auto* const tiles = reinterpret_cast<const std::byte*>(weight[expert].const_data_ptr<uint8_t>()) +
                              first / kernels::kInt4TileRows * kernels::Int4TileBytes(columns, group);
    const at::Tensor made = at::empty({whole, columns}, type == at::kBFloat16 ? at::kBFloat16 : at::kFloat);
    const auto unpack = [&](auto* to) {
      const observe::Range kernel("roofbench::unpack_int4");
      TorchThreads()(whole / kernels::kInt4TileRows, [&](kernels::Range some) {
        UnpackInt4(kernels::Int4Weight{tiles, whole, columns, group}, some,
                   to + some.begin * kernels::kInt4TileRows * columns);
      });
    };
    if (type == at::kBFloat16) {
      unpack(reinterpret_cast<kernels::Bf16*>(made.data_ptr<at::BFloat16>()));
    } else {
      unpack(made.data_ptr<float>());
    }
    return made.narrow(0, 0, count).to(type);
  }
  const at::Tensor stored = weight[expert].narrow(0, first, count);
  switch (format) {
    case WeightFormat::kInt8:
      return (stored.to(at::kFloat) * scale[expert].narrow(0, first, count).unsqueeze(1)).to(type);
    case WeightFormat::kLlmInt8:
      return (stored.to(at::kFloat) * (scale[expert].narrow(0, first, count) / kLlmInt8Largest).unsqueeze(1)).to(type);
    default:
      return stored.to(type);
  }
}

LlmInt8Matrix StoredMatrix::Int8Of(int64_t expert) const {
  return {weight[expert], scale[expert], format == WeightFormat::kLlmInt8 ? kLlmInt8Largest : 1};
}

// LibTorch has no product of such integers: x's type represents them exactly.
at::Tensor StoredMatrix::ApplyRounded(const at::Tensor& x, int64_t expert) const {
  const RoundedVectors vectors = RoundToInt8(x);
  const at::Tensor whole = vectors.whole.to(x.scalar_type());
  return ByBlocks(*this, [&](int64_t first, int64_t count) {
    return at::linear(whole, Dequantized(expert, first, count, x.scalar_type())).mul(vectors.step).to(x.scalar_type());
  });
}

template <typename Y>
void StoredMatrix::MultiplyIntegers(int64_t expert, const kernels::LlmInt8Activations& x, Y* y,
                                    kernels::Range range) const {
  if (format == WeightFormat::kInt4) {
    const std::byte* const tiles = reinterpret_cast<const std::byte*>(Elements<uint8_t>(weight)) +
                                   expert * kernels::Int4Bytes(rows, columns, group);
    return RunRows(kernels::Int4Product<Y>{.weight = {tiles, rows, columns, group}, .activations = &x, .y = y}, range);
  }
  const float steps = format == WeightFormat::kInt8 ? 1 : kernels::kInt8Largest;
  RunRows(kernels::LlmInt8Product<Y>{.weight = {Elements<int8_t>(weight) + expert * rows * columns,
                                                Elements<float>(scale) + expert * rows, rows, columns, steps},
                                     .activations = &x,
                                     .y = y},
          range);
}

template void StoredMatrix::MultiplyIntegers(int64_t, const kernels::LlmInt8Activations&, float*, kernels::Range) const;
template void StoredMatrix::MultiplyIntegers(int64_t, const kernels::LlmInt8Activations&, kernels::Bf16*,
                                             kernels::Range) const;

at::Tensor StoredMatrix::Apply(const at::Tensor& x, int64_t expert, double threshold, const LlmInt8Marker& marker,
                               LlmInt8Tally* tally) const {
  if (MultipliesIntegers()) {
    if (format == WeightFormat::kInt4) return ApplyRounded(x, expert);
    return LlmInt8Linear(x, Int8Of(expert), Threshold(threshold), marker, tally);
  }
  switch (format) {
    case WeightFormat::kInt8:
      if (TakesPackedProduct(x, weight[expert])) {
        return at::_weight_int8pack_mm(x, weight[expert], scale[expert].to(at::kBFloat16));
      }
      return ByBlocks(*this, [&](int64_t first, int64_t count) {
        // Sums of integers overflow fp16.
        if (x.scalar_type() == at::kHalf) return at::linear(x, Dequantized(expert, first, count, at::kHalf));
        // Integers up to 128 are exact in bf16; the fp32 scales follow.
        const at::Tensor whole = weight[expert].narrow(0, first, count).to(x.scalar_type());
        return at::linear(x, whole).mul(scale[expert].narrow(0, first, count)).to(x.scalar_type());
      });
    case WeightFormat::kInt4:
      return ByBlocks(*this, [&](int64_t first, int64_t count) {
        return at::linear(x, Dequantized(expert, first, count, x.scalar_type()));
      });
    default:
      return at::linear(x, weight[expert]);
  }
}

at::Tensor StoredMatrix::ApplyExactly(const at::Tensor& x, int64_t expert, double threshold) const {
  if (MultipliesIntegers()) return Apply(x, expert, threshold);
  return ByBlocks(*this,
                  [&](int64_t first, int64_t count) { return at::linear(x, Dequantized(expert, first, count)); });
}

StoredMatrix StoredMatrix::Experts(const at::Tensor& chosen) const {
  StoredMatrix made = *this;
  made.experts = chosen.size(0);
  made.weight = weight.index_select(0, chosen);
  if (scale.defined()) made.scale = scale.index_select(0, chosen);
  return made;
}

int64_t StoredMatrix::nbytes() const {
  return static_cast<int64_t>(weight.nbytes()) + (scale.defined() ? static_cast<int64_t>(scale.nbytes()) : 0);
}

}  // namespace roofbench::models
