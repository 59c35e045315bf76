#include "benchmarks/micro/weight_operand.h"

#include <ATen/ops/_convert_weight_to_int4pack.h>
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/_weight_int4pack_mm.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>

#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "benchmarks/gpu_native.h"
#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/kernels/gemv.h"
#include "lib/kernels/huge_pages.h"
#include "lib/kernels/quantise.h"
#include "lib/kernels/team.h"

namespace roofbench {
namespace {

using kernels::Bf16;
using workload::WeightFormat;

at::Tensor OnHugePages(at::Tensor tensor) {
  kernels::UseHugePages(tensor.data_ptr(), tensor.nbytes());
  return tensor;
}

at::Tensor Even(const at::Tensor& columns) { return columns.slice(-1, 0, columns.size(-1), 2); }
at::Tensor Odd(const at::Tensor& columns) { return columns.slice(-1, 1, columns.size(-1), 2); }

at::Tensor PackNative(const WeightOperand& shape, const at::Tensor& codes, const at::Tensor& scales_zeros,
                      int threads) {
  const int64_t bytes = kernels::Int4Bytes(shape.n, shape.k, shape.group);
  at::Tensor packed = at::empty({shape.experts, bytes}, at::kByte);
  const kernels::OpenMpTeam team(threads);
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    team(kernels::Int4Tiles(shape.n), [&](kernels::Range tiles) {
      kernels::PackInt4(Elements<uint8_t>(codes) + expert * shape.n * shape.k,
                        Elements<Bf16>(scales_zeros) + expert * shape.n * (shape.k / shape.group) * 2, shape.n, shape.k,
                        shape.group, reinterpret_cast<std::byte*>(Elements<uint8_t>(packed)) + expert * bytes, tiles);
    });
  }
  return packed;
}

constexpr int64_t kInnerTiles = 8;  // of 16 columns, that LibTorch packs together for a GPU

at::Tensor PackTorch(const WeightOperand& shape, const at::Tensor& codes, const Device& device) {
  std::vector<at::Tensor> packed;
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    if (device.torch_device().is_cuda()) {
      // The even column in the high four bits.
      const at::Tensor pairs = Even(codes[expert]).mul(16).bitwise_or_(Odd(codes[expert]));
      packed.push_back(at::_convert_weight_to_int4pack(pairs.to(device.torch_device()), kInnerTiles));
    } else {
      packed.push_back(at::_convert_weight_to_int4pack_for_cpu(codes[expert].to(at::kInt), 1));
    }
  }
  return at::stack(packed);
}

at::Tensor PackInt4(const WeightOperand& shape, WeightLayout layout, const at::Tensor& codes,
                    const at::Tensor& scales_zeros, const Device& device) {
  switch (layout) {
    case WeightLayout::kNative:
      return PackNative(shape, codes, scales_zeros, device.threads());
    case WeightLayout::kNativeGpu:
      return Odd(codes).mul(16).bitwise_or_(Even(codes));
    case WeightLayout::kTorch:
      return PackTorch(shape, codes, device);
  }
  throw std::logic_error("unknown layout");
}

void MakeInt4(Inputs& in, WeightOperand& weight, WeightLayout layout, const at::Tensor& rows) {
  const int64_t groups = weight.k / weight.group;
  // [experts, n, groups, 2]: a scale of 0.01 to 0.04, and a zero within a few scales.
  const at::Tensor scales_zeros = in.Keep([&](at::Generator& generator) {
    at::Tensor both = at::randn({weight.experts, weight.n, groups, 2}, generator).mul_(0.01);
    both.select(3, 0).abs_().add_(0.01);
    return both.to(at::kBFloat16);
  });
  at::Tensor sampled_codes;
  weight.data = in.Keep([&](at::Generator& generator) {
    const at::Tensor codes = at::randint(0, 16, {weight.experts, weight.n, weight.k}, generator, at::kByte);
    sampled_codes = codes.index_select(1, rows.to(codes.device()));
    return PackInt4(weight, layout, codes, scales_zeros, in.device());
  });
  if (layout == WeightLayout::kTorch) weight.scales = scales_zeros.transpose(1, 2).contiguous();
  if (layout == WeightLayout::kNativeGpu) {
    weight.scales = scales_zeros.select(3, 0).contiguous();
    weight.zeros = scales_zeros.select(3, 1).contiguous();
  }
  sampled_codes = in.Keep([&](at::Generator&) { return sampled_codes; });
  weight.exact_rows = [codes = sampled_codes, sampled = scales_zeros.index_select(1, rows), group = weight.group] {
    const at::Tensor exact = sampled.to(at::kDouble).repeat_interleave(group, 2);
    return codes.to(at::kDouble).sub_(8).mul_(exact.select(3, 0)).add_(exact.select(3, 1));
  };
}

// The kernels' view of expert 0. `Visit` is called with it; T is the type of x and y.
template <typename Visit>
void WithNative(const WeightOperand& weight, Visit visit) {
  const void* const data = weight.data.data_ptr();
  switch (weight.format) {
    case WeightFormat::kFp32:
      return visit(kernels::Fp32Weight{static_cast<const float*>(data), weight.n, weight.k}, float());
    case WeightFormat::kInt8:
      return visit(
          kernels::Int8Weight{static_cast<const int8_t*>(data), Elements<float>(weight.scales), weight.n, weight.k},
          Bf16());
    case WeightFormat::kInt4:
      return visit(kernels::Int4Weight{static_cast<const std::byte*>(data), weight.n, weight.k, weight.group}, Bf16());
    default:
      return visit(kernels::Bf16Weight{static_cast<const Bf16*>(data), weight.n, weight.k}, Bf16());
  }
}

kernels::WeightType GpuTypeOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFp32:
      return kernels::WeightType::kFp32;
    case WeightFormat::kInt8:
      return kernels::WeightType::kInt8;
    case WeightFormat::kInt4:
      return kernels::WeightType::kInt4;
    default:
      return kernels::WeightType::kBf16;
  }
}

// `chosen` undefined: the first matrix alone.
CaseStep ProductOnGpu(const WeightOperand& weight, const at::Tensor& chosen, const at::Tensor& x, const at::Tensor& y,
                      const Device& device) {
  const auto pointer = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; };
  return GpuStep(device, [=](const kernels::GpuKernels& table, void* stream) {
    kernels::GemvArguments arguments{.type = GpuTypeOf(weight.format),
                                     .weight = weight.data.const_data_ptr(),
                                     .scale = pointer(weight.scales),
                                     .zero = pointer(weight.zeros),
                                     .x = x.const_data_ptr(),
                                     .y = y.data_ptr(),
                                     .rows = weight.n,
                                     .cols = weight.k,
                                     .group = weight.group};
    if (chosen.defined()) {
      arguments.chosen = static_cast<int>(chosen.numel());
      arguments.experts = chosen.const_data_ptr<int64_t>();
    }
    return table.gemv(arguments, stream);
  });
}

}  // namespace

AxisSpec PrecisionAxis(std::vector<std::string> choices) {
  return {.name = "precision",
          .choices = std::move(choices),
          .doc = "of the weights; int8 has a scale a row, int4 a scale and a zero a group, both with bf16 activations"};
}

WeightFormat FormatAt(const Point& at) { return *workload::ParseWeightFormat(at.Text("precision")); }

WeightLayout LayoutAt(const Point& at, const Device& device) {
  if (IsNativeOnGpu(at, device)) return WeightLayout::kNativeGpu;
  return at.Text("impl") == "native" ? WeightLayout::kNative : WeightLayout::kTorch;
}

absl::Status WeightProductSupports(const Point& at, const Device& device, int64_t k, int64_t batch) {
  const bool int4 = FormatAt(at) == WeightFormat::kInt4;
  if (IsNativeOnGpu(at, device)) {
    if (batch != 1) return absl::UnimplementedError("our kernel for GPUs takes one vector; impl:eager takes more");
    if (k % kernels::kGpuVector != 0) return absl::UnimplementedError("our kernel takes k in multiples of 8");
    return GpuKernelsSupport(device);
  }
  if (device.torch_device().is_cuda() && int4 && k % (16 * kInnerTiles) != 0) {
    return absl::UnimplementedError(
        "LibTorch packs int4 weights for a GPU in blocks of 128 columns: k must be a "
        "multiple of 128");
  }
  return ImplementationSupports(at, device);
}

workload::Dtype ActivationAt(const Point& at) { return workload::ActivationDtype(FormatAt(at)); }

WeightOperand MakeWeight(Inputs& in, WeightOperand shape, WeightLayout layout, const at::Tensor& rows) {
  WeightOperand weight = std::move(shape);
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
    weight.scales = layout == WeightLayout::kNative ? scales : scales.to(at::kBFloat16);
    weight.exact_rows = [data = weight.data, scales, rows] {
      return data.index_select(1, rows).to(at::kDouble).mul_(scales.index_select(1, rows).unsqueeze(2));
    };
  } else {
    weight.data = in.Randn({weight.experts, weight.n, weight.k}, workload::ActivationDtype(weight.format));
    // A copy, so that a packed weight does not keep the plain one alive.
    weight.exact_rows = [sampled = weight.data.index_select(1, rows)] { return sampled.to(at::kDouble); };
  }
  if (layout == WeightLayout::kNative) OnHugePages(weight.data);
  return weight;
}

void TorchProduct(const WeightOperand& weight, int64_t expert, const at::Tensor& x, at::Tensor& y) {
  if (weight.format == WeightFormat::kInt8) {
    y = at::_weight_int8pack_mm(x, weight.data.select(0, expert), weight.scales.select(0, expert));
  } else if (weight.format == WeightFormat::kInt4) {
    const auto product = x.is_cuda() ? at::_weight_int4pack_mm : at::_weight_int4pack_mm_for_cpu;
    y = product(x, weight.data.select(0, expert), weight.group, weight.scales.select(0, expert));
  } else {
    at::mm_out(y, x, weight.data.select(0, expert).t());
  }
}

CaseStep NativeProduct(const WeightOperand& weight, const at::Tensor& x, const at::Tensor& y, const Device& device) {
  if (device.gpu() != nullptr) return ProductOnGpu(weight, {}, x, y, device);
  CaseStep step;
  WithNative(weight, [&]<typename Weight, typename T>(const Weight& native, T) {
    const kernels::Gemv<Weight, T, T> work{native, Elements<T>(x), Elements<T>(y), x.size(0)};
    // The tensors are captured to live as long as the step.
    step = [run = NativeStep(work, device), weight, x, y] { run(); };
  });
  return step;
}

CaseStep NativeGather(const WeightOperand& weight, const at::Tensor& chosen, const at::Tensor& x, const at::Tensor& y,
                      const Device& device) {
  if (device.gpu() != nullptr) return ProductOnGpu(weight, chosen, x, y, device);
  CaseStep step;
  WithNative(weight, [&]<typename Weight, typename T>(const Weight& native, T) {
    const kernels::GatherGemv<Weight, T, T> work{native, Elements<int64_t>(chosen), chosen.numel(), Elements<T>(x),
                                                 Elements<T>(y)};
    step = [run = NativeStep(work, device), weight, chosen, x, y] { run(); };
  });
  return step;
}

}  // namespace roofbench
