// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/products/weight_operand.h"

#include <ATen/ops/_weight_int4pack_mm.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/aten/products.h"
#include "lib/aten/random.h"
#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench {
namespace {

using kernels::Bf16;
using workload::WeightFormat;

constexpr int64_t kBlockElements = 1 << 19;  // that exist in double precision at a time

// The layout of weights by implementation. kNativeGpu: see kernels::GemvArguments.
enum class WeightLayout { kTorch, kNative, kNativeGpu };

WeightLayout LayoutAt(const Point& at, const Device& device) {
  if (at.Text(kImplAxis) != "native") return WeightLayout::kTorch;
  return device.gpu() == nullptr ? WeightLayout::kNative : WeightLayout::kNativeGpu;
}

// Numbers of a GPU's operand are drawn there: on the host, a matrix of 32768 x 32768 took 11 s.
at::Generator GeneratorThere(at::Device device, at::Generator& host) {
  if (device.is_cpu()) return host;
  constexpr int64_t kSeeds = int64_t{1} << 62;
  return NewGenerator(device, static_cast<uint64_t>(at::randint(kSeeds, {}, host, at::kLong).item<int64_t>()));
}

at::Tensor PackInt4(const WeightOperand& shape, WeightLayout layout, const at::Tensor& codes,
                    const at::Tensor& scales_zeros, const Device& device) {
  switch (layout) {
    case WeightLayout::kNative:
      return PackInt4ForCpu(codes, scales_zeros, shape.group, kernels::ThreadPool(device.threads()));
    case WeightLayout::kNativeGpu:
      return PackInt4ForGpu(codes);
    case WeightLayout::kTorch:
      return PackInt4ForTorch(codes, device.torch_device());
  }
  throw std::logic_error("unknown layout");
}

// codes [experts, rows, k] with scales and zeros [experts, rows, k / group, 2], in double precision.
at::Tensor ExactInt4(const at::Tensor& codes, const at::Tensor& scales_zeros, int64_t group) {
  const at::Tensor exact = scales_zeros.to(at::kDouble).repeat_interleave(group, 2);
  return codes.to(at::kDouble).sub_(8).mul_(exact.select(3, 0)).add_(exact.select(3, 1));
}

// The sums of weights [experts, n, k] over rows; exact(block, row) converts a block from `row` on to double precision:
// the whole in double may not fit.
template <typename Exact>
at::Tensor ColumnSums(const at::Tensor& data, Exact exact) {
  const int64_t most = std::max<int64_t>(1, kBlockElements / (data.size(0) * data.size(2)));
  at::Tensor sums = at::zeros({data.size(0), data.size(2)}, data.options().dtype(at::kDouble));
  for (int64_t row = 0; row < data.size(1); row += most) {
    const at::Tensor block = data.narrow(1, row, std::min(most, data.size(1) - row));
    sums.add_(exact(block, row).sum(1));
  }
  return sums;
}

void MakeInt4(Inputs& in, WeightOperand& weight, WeightLayout layout, const at::Tensor& rows) {
  const int64_t groups = weight.k / weight.group;
  // [experts, n, groups, 2]: a scale of 0.01 to 0.04, and a zero within a few scales.
  const at::Tensor scales_zeros = in.Keep([&](at::Generator& generator) {
    at::Tensor both = at::randn({weight.experts, weight.n, groups, 2}, generator).mul_(0.01);
    both.select(3, 0).abs_().add_(0.01);
    return both.to(at::kBFloat16);
  });
  std::vector<at::Tensor> sampled;
  const at::TensorOptions there(in.device().torch_device());
  at::Tensor sums = at::zeros({weight.experts, weight.k}, there.dtype(at::kDouble));
  // Some rows at a time: as bytes, or in the 32 bits that LibTorch packs, the codes are several times the operand. Rows
  // that all layouts keep together.
  constexpr int64_t kRows = 64;
  const int64_t most = std::max<int64_t>(1, kBlockElements / (weight.k * kRows)) * kRows;
  weight.data = in.Keep([&](at::Generator& host) {
    at::Generator generator = GeneratorThere(there.device(), host);
    const at::Tensor host_rows = rows.to(at::kCPU);
    at::Tensor packed;
    int64_t used = 0;  // of its second dimension, whose unit the layout decides
    for (int64_t row = 0; row < weight.n; row += most) {
      const int64_t count = std::min(most, weight.n - row);
      const at::Tensor codes = at::randint(0, 16, {weight.experts, count, weight.k}, generator, there.dtype(at::kByte));
      const at::Tensor of_codes = scales_zeros.narrow(1, row, count);
      const at::Tensor here = host_rows.ge(row).logical_and_(host_rows.lt(row + count));
      sampled.push_back(codes.index_select(1, host_rows.masked_select(here).sub_(row).to(there.device())));
      sums.add_(ExactInt4(codes, of_codes, weight.group).sum(1));
      const at::Tensor block = PackInt4(weight, layout, codes, of_codes, in.device());
      if (!packed.defined()) {
        std::vector<int64_t> shape = block.sizes().vec();
        shape[1] *= (weight.n + count - 1) / count;
        packed = at::empty(shape, block.options());
      }
      packed.narrow(1, used, block.size(1)).copy_(block);
      used += block.size(1);
    }
    return packed.narrow(1, 0, used);
  });
  if (layout == WeightLayout::kTorch) weight.scales = scales_zeros.transpose(1, 2).contiguous();
  if (layout == WeightLayout::kNativeGpu) {
    weight.scales = scales_zeros.select(3, 0).contiguous();
    weight.zeros = scales_zeros.select(3, 1).contiguous();
  }
  const at::Tensor sampled_codes = in.Keep([&](at::Generator&) { return at::cat(sampled, 1); });
  weight.column_sums = in.Keep([&](at::Generator&) { return sums; });
  weight.exact_rows = [codes = sampled_codes, sampled = scales_zeros.index_select(1, rows), group = weight.group] {
    return ExactInt4(codes, sampled, group);
  };
}

// visit(weight, T()) with the kernels' view of expert 0; T is the type of x and y.
template <typename Visit>
auto WithNative(const WeightOperand& weight, Visit visit) {
  const auto [n, k] = std::pair(weight.n, weight.k);
  switch (weight.format) {
    case WeightFormat::kFp32:
      return visit(kernels::Fp32Weight{Elements<float>(weight.data), n, k}, float());
    case WeightFormat::kInt8:
      return visit(kernels::Int8Weight{Elements<int8_t>(weight.data), Elements<float>(weight.scales), n, k}, Bf16());
    case WeightFormat::kInt4:
      return visit(kernels::Int4Weight{static_cast<const std::byte*>(weight.data.const_data_ptr()), n, k, weight.group},
                   Bf16());
    default:
      return visit(kernels::Bf16Weight{Elements<Bf16>(weight.data), n, k}, Bf16());
  }
}

CaseStep NativeProduct(WeightProduct& o, const Point&, Inputs& in) {
  return WithNative(o.weight, [&]<typename Weight, typename T>(const Weight& weight, T) -> CaseStep {
    if (!o.chosen.defined()) {
      return KernelStep(kernels::Gemv<Weight, T, T>{weight, Elements<T>(o.x), Elements<T>(o.y), o.x.size(0)},
                        in.device());
    }
    return KernelStep(kernels::GatherGemv<Weight, T, T>{weight, Elements<int64_t>(o.chosen), o.chosen.numel(),
                                                        Elements<T>(o.x), Elements<T>(o.y)},
                      in.device());
  });
}

int LaunchProduct(const kernels::GpuKernels& table, WeightProduct& o, void* stream) {
  const auto pointer = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; };
  kernels::GemvArguments arguments{.type = WeightTypeOf(o.weight.format),
                                   .weight = o.weight.data.const_data_ptr(),
                                   .scale = pointer(o.weight.scales),
                                   .zero = pointer(o.weight.zeros),
                                   .x = o.x.const_data_ptr(),
                                   .y = o.y.data_ptr(),
                                   .rows = o.weight.n,
                                   .cols = o.weight.k,
                                   .group = o.weight.group,
                                   .batch = o.chosen.defined() ? 1 : static_cast<int>(o.x.size(0))};
  if (o.chosen.defined()) {
    arguments.chosen = static_cast<int>(o.chosen.numel());
    arguments.experts = o.chosen.const_data_ptr<int64_t>();
  }
  return table.gemv(arguments, stream);
}

}  // namespace

WeightFormat FormatAt(const Point& at) { return *workload::ParseWeightFormat(at.Text("precision")); }

workload::Cost CostAt(const Point& at, workload::Cost cost, double matrices) {
  if (at.Text(kImplAxis) == "onednn") {
    const double k = at.Has("k") ? at.Number("k") : at.Number("n");
    cost.resident_bytes += matrices * workload::MatrixBytes(FormatAt(at), at.Number("n"), k, /*group=*/0);
  }
  return cost;
}

workload::Dtype ActivationAt(const Point& at) { return workload::ActivationDtype(FormatAt(at)); }

WeightOperand MakeWeight(const Point& at, Inputs& in, WeightOperand shape, const at::Tensor& rows) {
  WeightOperand weight = std::move(shape);
  weight.format = FormatAt(at);
  const WeightLayout layout = LayoutAt(at, in.device());
  if (weight.format == WeightFormat::kInt4) {
    MakeInt4(in, weight, layout, rows);
  } else if (weight.format == WeightFormat::kInt8) {
    weight.data = in.Randn({weight.experts, weight.n, weight.k}, workload::Dtype::kInt8);
    // LibTorch's operator takes scales in the activations' type: both get the same ones.
    const at::Tensor scales = in.Keep([&](at::Generator& generator) {
      return at::randn({weight.experts, weight.n}, generator)
          .mul_(0.01)
          .abs_()
          .add_(0.01)
          .to(at::kBFloat16)
          .to(at::kFloat);
    });
    weight.scales = layout == WeightLayout::kTorch ? scales.to(at::kBFloat16) : scales;
    weight.exact_rows = [data = weight.data, scales, rows] {
      return data.index_select(1, rows).to(at::kDouble).mul_(scales.index_select(1, rows).unsqueeze(2));
    };
    weight.column_sums = in.Keep([&](at::Generator&) {
      return ColumnSums(weight.data, [&](const at::Tensor& block, int64_t row) {
        return block.to(at::kDouble).mul_(scales.narrow(1, row, block.size(1)).unsqueeze(2));
      });
    });
  } else {
    weight.data = in.Randn({weight.experts, weight.n, weight.k}, ActivationAt(at));
    // A copy, so that a packed weight does not keep the plain one alive.
    weight.exact_rows = [sampled = weight.data.index_select(1, rows)] { return sampled.to(at::kDouble); };
    weight.column_sums = in.Keep([&](at::Generator&) {
      return ColumnSums(weight.data, [](const at::Tensor& block, int64_t) { return block.to(at::kDouble); });
    });
  }
  if (layout == WeightLayout::kNative) kernels::UseHugePages(weight.data.data_ptr(), weight.data.nbytes());
  return weight;
}

absl::Status TorchTakes(const Point& at, int64_t k, const Device& device) {
  if (FormatAt(at) != WeightFormat::kInt8 || device.gpu() != nullptr || IsPackedInt8Width(k)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("LibTorch multiplies int8 weights in rows of a multiple of ",
                                               kPackedInt8Columns, ", not of ", k, "; impl:native takes any"));
}

void TorchProduct(const WeightOperand& weight, int64_t expert, const at::Tensor& x, at::Tensor& y) {
  if (weight.format == WeightFormat::kInt8) {
    y = at::_weight_int8pack_mm(x, weight.data.select(0, expert), weight.scales.select(0, expert));
  } else if (weight.format == WeightFormat::kInt4) {
    const auto product = x.is_cpu() ? at::_weight_int4pack_mm_for_cpu : at::_weight_int4pack_mm;
    y = product(x, weight.data.select(0, expert), weight.group, weight.scales.select(0, expert));
  } else {
    at::mm_out(y, x, weight.data.select(0, expert).t());
  }
}

FamilyOf<WeightProduct> WeightProducts(std::string name, std::string doc, const AxisList& precisions, std::string k) {
  return FamilyOf<WeightProduct>(std::move(name), std::move(doc))
      .Precisions(precisions)
      .Result([](const WeightProduct& o) { return o.y.index_select(1, o.rows); })
      .Whole([](const WeightProduct& o) { return o.y; })
      .RowSums([](const WeightProduct& o) {
        const at::Tensor sums =
            o.chosen.defined() ? o.weight.column_sums.index_select(0, o.chosen) : o.weight.column_sums;
        return at::mm(o.x.to(at::kDouble), sums.t());
      })
      .Within([k](const Point& at) { return Tolerance{.dtype = ActivationAt(at), .reduction = at.Number(k)}; })
      .Impl("native", OnCpu(NativeProduct), Cuda("GemvRows", LaunchProduct, [k](const Point& at) {
              const int64_t batch = at.Has("batch") ? at.Int("batch") : 1;
              return kernels::TakesGemv(WeightTypeOf(FormatAt(at)), batch, at.Int(k))
                         ? absl::OkStatus()
                         : absl::UnimplementedError(
                               "our kernel takes k in multiples of 8 and one vector; of int8 with k "
                               "in multiples of 16 up to 8");
            }));
}

}  // namespace roofbench
