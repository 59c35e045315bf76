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
#include "lib/aten/fp8.h"
#include "lib/aten/products.h"
#include "lib/aten/random.h"
#include "lib/kernels/operators/products/int4_product.h"
#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/models/decoding/llm_int8.h"
#include "lib/observe/ranges.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

// Normal values of int8 and fp8 have a deviation of 32 (FillRandom).
constexpr double kDeviationOf8Bits = 32;
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

// Multiplies blocks of rows that fit in a cache once dequantized: whole matrices would be a second model in memory. On
// a GPU the launches of blocks would take longer than the product.
template <typename Product>
at::Tensor ByBlocks(const StoredMatrix& matrix, Product product) {
  constexpr int64_t kGrain = kernels::kInt4TileRows;
  if (!matrix.weight.is_cpu()) return product(0, matrix.rows);
  const int64_t block = std::max(kGrain, workload::kDequantizedElements / matrix.columns / kGrain * kGrain);
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

absl::Status StoredMatrix::Check(WeightFormat format, int64_t columns, int64_t group) {
  if (format != WeightFormat::kInt4) return absl::OkStatus();
  if (group != 32 && group != 64 && group != 128 && group != 256) {
    return absl::UnimplementedError(absl::StrCat("int4 has groups of 32, 64, 128 or 256, not of ", group));
  }
  if (columns % group != 0) {
    return absl::UnimplementedError(
        absl::StrCat("int4 in groups of ", group, " cannot hold rows of ", columns, ", which is not a multiple"));
  }
  return absl::OkStatus();
}

absl::Status StoredMatrix::CheckJoined(WeightFormat format, int64_t rows) {
  if (format != WeightFormat::kInt4 || rows % kernels::kInt4TileRows == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("int4 has tiles of 16 rows, and a joined matrix of ", rows, " rows would end within one"));
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
    case WeightFormat::kFp8:
      made.weight = at::empty({experts, rows, columns},
                              there.dtype(format == WeightFormat::kFp8 ? at::kFloat8_e4m3fn : at::kChar));
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

kernels::Int8Weight StoredMatrix::Int8Rows() const {
  return {Elements<int8_t>(weight), Elements<float>(scale), rows, columns};
}

kernels::Int4Weight StoredMatrix::Int4Rows(int64_t expert, int64_t first, int64_t count) const {
  TORCH_CHECK(first % kernels::kInt4TileRows == 0, "int4 rows begin with a tile");
  const int64_t begin = expert * kernels::Int4Bytes(rows, columns, group) +
                        first / kernels::kInt4TileRows * kernels::Int4TileBytes(columns, group);
  return {reinterpret_cast<const std::byte*>(weight.const_data_ptr<uint8_t>()) + begin, count, columns, group};
}

void StoredMatrix::PackInt4(int64_t expert, int64_t first_row, int64_t count, const uint8_t* codes,
                            const kernels::Bf16* scales_zeros) {
  auto* const tiles = const_cast<std::byte*>(Int4Rows(expert, first_row, count).data);
  TorchThreads()(kernels::Int4Tiles(count), [&](kernels::Range range) {
    kernels::PackInt4(codes, scales_zeros, count, columns, group, tiles, range);
  });
}

void StoredMatrix::Store(int64_t expert, int64_t first_row, const at::Tensor& values) {
  const int64_t count = values.size(0);
  const auto own = [&](const at::Tensor& all) { return all[expert].narrow(0, first_row, count); };
  // The kernels take fp32 and bf16.
  const bool is_bf16 = values.scalar_type() == at::kBFloat16;
  const at::Tensor rows_in = (is_bf16 ? values : values.to(at::kFloat)).contiguous();
  switch (format) {
    case WeightFormat::kInt8:
      WithElement(rows_in, [&]<typename T>(T) {
        TorchThreads()(count, [&, codes = Elements<int8_t>(own(weight)),
                               scales = Elements<float>(own(scale))](kernels::Range range) {
          kernels::QuantizeInt8(Elements<T>(rows_in), columns, codes, scales, range);
        });
      });
      return;
    case WeightFormat::kInt4: {
      std::vector<uint8_t> codes(static_cast<std::size_t>(count * columns));
      std::vector<kernels::Bf16> scales(static_cast<std::size_t>(count * columns / group * 2));
      WithElement(rows_in, [&]<typename T>(T) {
        TorchThreads()(count, [&](kernels::Range range) {
          kernels::QuantizeInt4(Elements<T>(rows_in), columns, group, codes.data(), scales.data(), range);
        });
      });
      return PackInt4(expert, first_row, count, codes.data(), scales.data());
    }
    case WeightFormat::kLlmInt8: {
      const LlmInt8Matrix quantized = QuantizeLlmInt8(values);
      own(weight).copy_(quantized.weight);
      own(scale).copy_(quantized.row_max);
      return;
    }
    case WeightFormat::kFp8: {
      const Fp8Matrix quantized = QuantizeFp8(rows_in, Fp8Scales::kRows);
      own(weight).copy_(quantized.data);
      own(scale).copy_(quantized.scale.squeeze(1));
      return;
    }
    default:
      own(weight).copy_(values);
  }
}

void StoredMatrix::StoreCodes(int64_t expert, int64_t first_row, const at::Tensor& codes, const at::Tensor& scales,
                              const at::Tensor& zeros) {
  const at::Tensor steps = scales.to(at::kBFloat16);
  const at::Tensor zero = zeros.neg().add_(kInt4Center).mul_(steps.to(at::kFloat)).to(at::kBFloat16);
  const at::Tensor pairs = at::stack({steps, zero}, 2);
  const at::Tensor spread = pairs.repeat_interleave(columns / group / scales.size(1), 1).contiguous();
  PackInt4(expert, first_row, codes.size(0), codes.const_data_ptr<uint8_t>(), Elements<kernels::Bf16>(spread));
}

void StoredMatrix::FillRandom(uint64_t seed, double deviation) {
  roofbench::FillRandom(weight, seed, deviation);
  if (scale.defined()) scale.fill_(deviation / kDeviationOf8Bits * Steps());
  if (format == WeightFormat::kInt4) {
    const auto step = static_cast<float>(deviation / kInt4Deviation);
    const kernels::Bf16 zero = kernels::ToBf16(static_cast<float>(kInt4Middle) * step);
    const auto word = static_cast<int32_t>(kernels::ToBf16(step).bits | (static_cast<uint32_t>(zero.bits) << 16));
    Int4Words(weight, columns, group).select(2, 0).fill_(word);
  }
}

at::Tensor StoredMatrix::Dequantized(int64_t expert, int64_t first, int64_t count, at::ScalarType type) const {
  if (format == WeightFormat::kInt4) {
    const int64_t whole = kernels::Int4Tiles(count) * kernels::kInt4TileRows;
    const kernels::Int4Weight tiles = Int4Rows(expert, first, whole);
    const at::Tensor made = at::empty({whole, columns}, type == at::kBFloat16 ? at::kBFloat16 : at::kFloat);
    const observe::Range kernel("roofbench::unpack_int4");
    WithElement(made, [&]<typename T>(T) {
      TorchThreads()(kernels::Int4Tiles(count), [&](kernels::Range some) {
        UnpackInt4(tiles, some, Elements<T>(made) + some.begin * kernels::kInt4TileRows * columns);
      });
    });
    return made.narrow(0, 0, count).to(type);
  }
  const at::Tensor stored = weight[expert].narrow(0, first, count);
  if (!scale.defined()) return stored.to(type);
  return (stored.to(at::kFloat) * (scale[expert].narrow(0, first, count) / Steps()).unsqueeze(1)).to(type);
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
void StoredMatrix::MultiplyIntegers(int64_t expert, const kernels::Int8Activations& x, Y* y,
                                    kernels::Range range) const {
  if (format == WeightFormat::kInt4) {
    return RunRows(kernels::Int4Product<Y>{.weight = Int4Rows(expert, 0, rows), .activations = &x, .y = y}, range);
  }
  RunRows(kernels::LlmInt8Product<Y>{.weight = {Elements<int8_t>(weight) + expert * rows * columns,
                                                Elements<float>(scale) + expert * rows, rows, columns,
                                                static_cast<float>(Steps())},
                                     .activations = &x,
                                     .y = y},
          range);
}

template void StoredMatrix::MultiplyIntegers(int64_t, const kernels::Int8Activations&, float*, kernels::Range) const;
template void StoredMatrix::MultiplyIntegers(int64_t, const kernels::Int8Activations&, kernels::Bf16*,
                                             kernels::Range) const;

at::Tensor StoredMatrix::Apply(const at::Tensor& x, int64_t expert, double threshold, const Int8Marker& marker,
                               OutlierTally* tally, const LinearFunction& linear) const {
  const auto multiply = [&](const at::Tensor& vectors, const at::Tensor& weights) {
    return linear ? linear(vectors, weights, std::nullopt) : at::linear(vectors, weights);
  };
  if (MultipliesIntegers()) {
    if (format == WeightFormat::kInt4) return ApplyRounded(x, expert);
    return LlmInt8Linear(x, {weight[expert], scale[expert], Steps()}, Threshold(threshold), marker, tally);
  }
  switch (format) {
    case WeightFormat::kInt8:
    case WeightFormat::kFp8:
      if (format == WeightFormat::kInt8 && TakesPackedProduct(x, weight[expert])) {
        return at::_weight_int8pack_mm(x, weight[expert], scale[expert].to(at::kBFloat16));
      }
      return ByBlocks(*this, [&](int64_t first, int64_t count) {
        // Sums of them overflow fp16.
        if (x.scalar_type() == at::kHalf) return at::linear(x, Dequantized(expert, first, count, at::kHalf));
        // Integers up to 128 and numbers of e4m3 are exact in bf16; the fp32 scales follow.
        const at::Tensor whole = weight[expert].narrow(0, first, count).to(x.scalar_type());
        return multiply(x, whole).mul(scale[expert].narrow(0, first, count)).to(x.scalar_type());
      });
    case WeightFormat::kInt4:
      return ByBlocks(*this, [&](int64_t first, int64_t count) {
        return multiply(x, Dequantized(expert, first, count, x.scalar_type()));
      });
    default:
      return multiply(x, weight[expert]);
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

void CopyPart(const at::Tensor& from, int64_t dimension, const std::vector<int64_t>& sizes, const ModelPart& part,
              const at::Tensor& to) {
  int64_t begin = 0;
  int64_t end = 0;
  for (const int64_t size : sizes) {
    const int64_t count = size / part.of;
    to.narrow(dimension, end, count).copy_(from.narrow(dimension, begin + part.index * count, count));
    begin += size;
    end += count;
  }
}

at::Tensor StoredMatrix::Units() const {
  if (format != WeightFormat::kInt4) return weight.unsqueeze(3);
  return weight.view({experts, kernels::Int4Tiles(rows), columns / group, kernels::Int4GroupBytes(group)});
}

StoredMatrix StoredMatrix::PartOfRows(const std::vector<int64_t>& joined, const ModelPart& part) const {
  StoredMatrix made = Empty(format, experts, rows / part.of, columns, group, weight.device());
  made.int8_activations = int8_activations;
  std::vector<int64_t> units = joined;
  if (format == WeightFormat::kInt4) std::ranges::transform(joined, units.begin(), kernels::Int4Tiles);
  CopyPart(Units(), 1, units, part, made.Units());
  if (scale.defined()) CopyPart(scale, 1, joined, part, made.scale);
  return made;
}

StoredMatrix StoredMatrix::PartOfColumns(const ModelPart& part) const {
  StoredMatrix made = Empty(format, experts, rows, columns / part.of, group, weight.device());
  made.int8_activations = int8_activations;
  const at::Tensor units = Units();
  CopyPart(units, 2, {units.size(2)}, part, made.Units());
  made.scale = scale;
  return made;
}

int64_t StoredMatrix::nbytes() const {
  return static_cast<int64_t>(weight.nbytes()) + (scale.defined() ? static_cast<int64_t>(scale.nbytes()) : 0);
}

}  // namespace roofbench::models
