// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/inputs.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <stdexcept>
#include <utility>

#include "lib/aten/random.h"
#include "lib/base/text.h"
#include "lib/device/device.h"
#include "lib/suite/sampled_rows.h"

namespace roofbench {

namespace {

// Cases refer to it after their inputs are gone.
const std::shared_ptr<ranks::Group>& Alone() {
  static const std::shared_ptr<ranks::Group> alone = ranks::MakeAlone();
  return alone;
}

}  // namespace

Inputs::Inputs(Device& device, uint64_t seed, const std::string& name, const CompileOptions& compile)
    : device_(device),
      compile_(compile),
      group_(Alone()),
      generator_(NewGenerator(at::kCPU, seed ^ PortableHash(name))),
      device_generator_(device.torch_device().is_cpu()
                            ? generator_
                            : NewGenerator(device.torch_device(), seed ^ PortableHash(name))) {}

at::TensorOptions Inputs::OnDevice(at::ScalarType type) const {
  return at::TensorOptions(device_.torch_device()).dtype(type);
}

template <typename Make>
at::Tensor Inputs::Next(Make make, bool is_operand) {
  at::Tensor tensor;
  if (cloning_) {
    if (next_ >= first_.size()) throw std::logic_error("a build asked for more tensors than the first one");
    tensor = first_[next_].detach().clone();  // a leaf, if the first tensor was later set to require gradients
  } else {
    tensor = make().to(device_.torch_device());
    first_.push_back(tensor);
    if (is_operand) operands_.push_back(tensor);
  }
  if (is_operand) own_.push_back(tensor);
  ++next_;
  bytes_ += static_cast<double>(tensor.nbytes());
  return tensor;
}

namespace {

// Fills `values` with normal numbers in fp32 (fp64 in their own), converted by `finish`, a block at a time: the whole
// in fp32 could be four times the operand. On a processor the numbers are those of one at::randn: it draws 16 at a
// time, and a last block of fewer differently.
void FillNormal(const at::Tensor& values, at::Generator& generator,
                const std::function<void(at::Tensor& block)>& finish) {
  constexpr int64_t kBlock = 1 << 20;
  constexpr int64_t kDrawn = 16;
  const at::Tensor flat = values.view({-1});
  for (int64_t begin = 0, end = 0; begin < flat.numel(); begin = end) {
    end = flat.numel() - begin < kBlock + kDrawn ? flat.numel() : begin + kBlock;
    at::Tensor target = flat.slice(0, begin, end);
    const bool in_place = values.scalar_type() == at::kFloat || values.scalar_type() == at::kDouble;
    at::Tensor block = in_place ? at::randn_out(target, {end - begin}, generator)
                                : at::randn({end - begin}, generator, values.options().dtype(at::kFloat));
    finish(block);
    if (!in_place) target.copy_(block);
  }
}

}  // namespace

at::Tensor Inputs::Randn(at::IntArrayRef shape, workload::Dtype dtype, double scale) {
  return Next([&] {
    at::Tensor values = at::empty(shape, OnDevice(StorageType(dtype)));
    FillNormal(values, device_generator_, [&](at::Tensor& block) {
      if (dtype == workload::Dtype::kInt8) {
        block.mul_(32 * scale).round_().clamp_(-127, 127);
      } else if (scale != 1) {
        block.mul_(scale);
      }
    });
    return values;
  });
}

at::Tensor Inputs::Empty(at::IntArrayRef shape, at::ScalarType type) {
  return Next([&] { return at::empty(shape, OnDevice(type)).fill_(1); }, /*is_operand=*/false);
}

at::Tensor Inputs::Integers(int64_t low, int64_t high, at::IntArrayRef shape) {
  return Next([&] { return at::randint(low, high, shape, device_generator_, OnDevice(at::kLong)); });
}

at::Tensor Inputs::Keep(at::Tensor tensor) {
  return Next([&] { return std::move(tensor); });
}

at::Tensor Inputs::Keep(const std::function<at::Tensor(at::Generator&)>& make) {
  return Next([&] { return make(generator_); });
}

at::Tensor Inputs::SampleRows(int64_t rows, int64_t most) {
  at::Tensor sampled = Next([&] { return SampleRowNumbers(rows, most, generator_); }, /*is_operand=*/false);
  KeepSampledRows(sampled, rows);
  return sampled;
}

void Inputs::StartClone() {
  cloning_ = true;
  next_ = 0;
  own_.clear();
  bytes_ = 0;
  compiled_ = {};
}

}  // namespace roofbench
