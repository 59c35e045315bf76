// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/products.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_convert_weight_to_int4pack.h>
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <c10/core/SymInt.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/products/weights.h"

namespace roofbench {

at::Tensor OnednnLinear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<c10::string_view>);
  static const auto linear =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  return linear.call(x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), std::nullopt);
}

at::Tensor OnednnPack(const at::Tensor& weight, int64_t m) {
  using Signature = at::Tensor(const at::Tensor&, std::optional<c10::SymInt>);
  static const auto pack =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_reorder_linear_weight", "").typed<Signature>();
  return pack.call(weight, c10::SymInt(m));
}

kernels::TileLinear<kernels::Bf16> LinearByTiles::Pack(const at::Tensor& x, const at::Tensor& y,
                                                       const kernels::ParallelFor& parallel_for) {
  const at::Tensor rows = x.contiguous();
  const int64_t bytes = kernels::PanelBytes(x.size(0), kernels::TileSteps(x.size(1) * x.element_size()));
  if (!packed_.defined() || packed_.numel() < bytes) packed_ = at::empty({bytes}, at::kByte);
  auto* const packed = static_cast<std::byte*>(packed_.mutable_data_ptr());
  tiles_->pack(Elements<kernels::Bf16>(rows), x.size(0), x.size(1), packed, parallel_for);
  return {.x = packed, .y = Elements<kernels::Bf16>(y), .m = x.size(0), .n = y.size(1), .k = x.size(1)};
}

at::Tensor LinearByTiles::operator()(const at::Tensor& x, const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias, const kernels::ParallelFor& parallel_for) {
  const at::Tensor w = weight.contiguous();
  const at::Tensor added = bias && bias->defined() ? bias->contiguous() : at::Tensor();
  const at::Tensor y = at::empty({x.size(0), w.size(0)}, x.options());
  kernels::TileLinear<kernels::Bf16> work = Pack(x, y, parallel_for);
  work.w = Elements<kernels::Bf16>(w);
  work.bias = added.defined() ? Elements<kernels::Bf16>(added) : nullptr;
  tiles_->run(work, parallel_for);
  return y;
}

at::Tensor LinearByTiles::operator()(const at::Tensor& x, const kernels::StoredRows& weight, int64_t n,
                                     const kernels::ParallelFor& parallel_for) {
  const at::Tensor y = at::empty({x.size(0), n}, x.options());
  kernels::TileLinear<kernels::Bf16> work = Pack(x, y, parallel_for);
  work.stored = &weight;
  tiles_->run(work, parallel_for);
  return y;
}

at::Tensor MatmulByTiles(const kernels::TileLinearKernels& tiles, const at::Tensor& x, const at::Tensor& w,
                         at::ScalarType type, const kernels::ParallelFor& parallel_for) {
  const bool x_turned = !x.is_contiguous() && x.t().is_contiguous();
  const at::Tensor left = x_turned ? x : x.contiguous();
  const at::Tensor right = w.contiguous();
  const int64_t k = w.size(0);
  const int64_t n = w.size(1);
  const at::Tensor packed = at::empty({kernels::PanelBytes(n, kernels::TileSteps(k * w.element_size()))}, at::kByte);
  auto* const panels = static_cast<std::byte*>(packed.mutable_data_ptr());
  kernels::PackTurnedTileColumns(Elements<kernels::Bf16>(right), k, n, panels, parallel_for);
  at::Tensor y = at::empty({x.size(0), n}, x.options().dtype(type));
  const auto multiply = [&]<typename Y>(Y, auto kernel) {
    kernel({.x = Elements<kernels::Bf16>(left),
            .w = panels,
            .y = Elements<Y>(y),
            .m = x.size(0),
            .n = n,
            .k = k,
            .x_turned = x_turned},
           parallel_for);
  };
  if (type == at::kFloat) {
    multiply(float(), tiles.matmul_to_floats);
  } else {
    multiply(kernels::Bf16(), tiles.matmul);
  }
  return y;
}

namespace {

at::Tensor Even(const at::Tensor& columns) { return columns.slice(-1, 0, columns.size(-1), 2); }
at::Tensor Odd(const at::Tensor& columns) { return columns.slice(-1, 1, columns.size(-1), 2); }

}  // namespace

at::Tensor PackInt4ForTorch(const at::Tensor& codes, at::Device device) {
  std::vector<at::Tensor> packed;
  for (const at::Tensor& matrix : codes.unbind()) {
    if (!device.is_cpu()) {
      // The even column in the high four bits.
      const at::Tensor pairs = Even(matrix).mul(16).bitwise_or_(Odd(matrix));
      packed.push_back(at::_convert_weight_to_int4pack(pairs.to(device), kTorchInt4Columns / 16));
    } else {
      packed.push_back(at::_convert_weight_to_int4pack_for_cpu(matrix.to(at::kInt), 1));
    }
  }
  return at::stack(packed);
}

at::Tensor PackInt4ForCpu(const at::Tensor& codes, const at::Tensor& scales_zeros, int64_t group,
                          const kernels::ParallelFor& parallel_for) {
  const int64_t n = codes.size(1);
  const int64_t k = codes.size(2);
  at::Tensor packed = at::empty({codes.size(0), kernels::Int4Bytes(n, k, group)}, at::kByte);
  for (int64_t matrix = 0; matrix < codes.size(0); ++matrix) {
    parallel_for(kernels::Int4Tiles(n), [&](kernels::Range tiles) {
      kernels::PackInt4(Elements<uint8_t>(codes[matrix]), Elements<kernels::Bf16>(scales_zeros[matrix]), n, k, group,
                        reinterpret_cast<std::byte*>(Elements<uint8_t>(packed[matrix])), tiles);
    });
  }
  return packed;
}

at::Tensor PackInt4ForGpu(const at::Tensor& codes) { return Odd(codes).mul(16).bitwise_or_(Even(codes)); }

}  // namespace roofbench
