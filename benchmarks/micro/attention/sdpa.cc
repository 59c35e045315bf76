// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/attention/sdpa.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace roofbench {
namespace {

// A backend of scaled_dot_product_attention, and how LibTorch allows it.
struct Backend {
  const char* name;
  bool on_cpu;
  bool takes_fp32;  // on GPUs
  bool (at::Context::*is_allowed)() const;
  void (at::Context::*allow)(bool);
};
constexpr std::array<Backend, 4> kBackends = {
    {{"math", true, true, &at::Context::userEnabledMathSDP, &at::Context::setSDPUseMath},
     {"flash", true, false, &at::Context::userEnabledFlashSDP, &at::Context::setSDPUseFlash},
     {"efficient", false, true, &at::Context::userEnabledMemEfficientSDP, &at::Context::setSDPUseMemEfficient},
     {"cudnn", false, false, &at::Context::userEnabledCuDNNSDP, &at::Context::setSDPUseCuDNN}}};

// While it lives, LibTorch may take this backend alone (auto: whichever it may take anyway).
class AllowedBackend {
 public:
  explicit AllowedBackend(const std::string& name) {
    for (std::size_t i = 0; i < kBackends.size(); ++i) {
      before_[i] = (at::globalContext().*kBackends[i].is_allowed)();
      if (name != kAutoBackend) (at::globalContext().*kBackends[i].allow)(name == kBackends[i].name);
    }
  }
  AllowedBackend(const AllowedBackend&) = delete;
  AllowedBackend& operator=(const AllowedBackend&) = delete;
  ~AllowedBackend() {
    for (std::size_t i = 0; i < kBackends.size(); ++i) (at::globalContext().*kBackends[i].allow)(before_[i]);
  }

 private:
  std::array<bool, kBackends.size()> before_{};
};

// The heads of a group see the same keys without a copy of them for each, which enable_gqa would make.
at::Tensor Sdpa(const std::vector<at::Tensor>& qkv, bool causal, const std::string& backend) {
  const AllowedBackend allowed(backend);
  const auto shared = [&](const at::Tensor& x) { return x.unsqueeze(1).expand({-1, qkv[0].size(1), -1, -1}); };
  return at::scaled_dot_product_attention(qkv[0], shared(qkv[1]), shared(qkv[2]), std::nullopt, 0.0, causal);
}

// What gradients are asked for by.
std::vector<at::Tensor> Leaves(const AttentionOperands& o) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : {o.q, o.k, o.v}) leaves.push_back(x.detach().requires_grad_(true));
  return leaves;
}

void Backward(AttentionOperands& o, const at::Tensor& y, const std::vector<at::Tensor>& leaves, bool again) {
  const std::vector<at::Tensor> gradients = torch::autograd::grad({y}, leaves, {o.dy}, /*retain_graph=*/again);
  o.dq = gradients[0];
  o.dk = gradients[1];
  o.dv = gradients[2];
}

// Blocks of scores on each thread, backward also of their gradients: in fp32, and once more in 16 bits; and sums.
double BlockBytes(const workload::Attention& shape, bool has_backward) {
  const double queries = shape.queries >= 768 ? 256 : shape.queries >= 192 ? 64 : 32;
  const double scores = queries * std::min(512.0, shape.keys);
  const double fp32 = ElementBytes(workload::Dtype::kFp32);
  const double reduced = shape.dtype == workload::Dtype::kFp32 ? 0 : ElementBytes(shape.dtype);
  const double sums = has_backward ? 0 : queries * (2 + shape.head_dim) * fp32;
  return at::get_num_threads() * ((has_backward ? 2 : 1) * scores * (fp32 + reduced) + sums);
}

}  // namespace

double SdpaScratchBytes(const workload::Attention& shape, const std::string& pass) {
  const double of_query = shape.batch * shape.heads * shape.queries;
  const double as_q = of_query * shape.head_dim * ElementBytes(shape.dtype);
  // y is a tensor beside the one that there was before, and there is a number for each query.
  if (pass == kForward) return as_q + of_query * ElementBytes(workload::Dtype::kFp32) + BlockBytes(shape, false);
  // As counted: y, three more tensors as large as q while gradients are made, and one where a group's are added up.
  const double group = shape.heads > shape.kv_heads ? 1 : 0;
  return ((pass == kBackward ? 4 : 5) + group) * as_q + BlockBytes(shape, true);
}

CaseStep PrepareSdpa(AttentionOperands& o, const Point& at, Inputs&) {
  const std::string backend = at.Text(kBackendAxis);
  if (!o.has_backward()) {
    return [&o, backend] { o.y = Sdpa({o.q, o.k, o.v}, o.causal, backend); };
  }
  if (o.has_forward) {
    return [&o, backend] {
      const std::vector<at::Tensor> leaves = Leaves(o);
      const at::Tensor y = Sdpa(leaves, o.causal, backend);
      Backward(o, y, leaves, /*again=*/false);
      o.y = y.detach();
    };
  }
  const at::AutoGradMode grad(true);
  const std::vector<at::Tensor> leaves = Leaves(o);
  return [&o, leaves, y = Sdpa(leaves, o.causal, backend)] { Backward(o, y, leaves, /*again=*/true); };
}

absl::Status SdpaSupports(const Point& at, const Device& device) {
  if (at.Text(kMaskAxis) == kCausal && at.Int("queries") != at.Int("keys")) {
    return absl::UnimplementedError(
        "LibTorch's causal mask begins with the first key: queries must be as many as keys");
  }
  for (const Backend& backend : kBackends) {
    if (at.Text(kBackendAxis) != backend.name) continue;
    if (device.gpu() == nullptr && !backend.on_cpu) {
      return absl::UnimplementedError(absl::StrCat("LibTorch has backend:", backend.name, " on GPUs alone"));
    }
    if (device.gpu() != nullptr && !backend.takes_fp32 && at.Dtype() == workload::Dtype::kFp32) {
      return absl::UnimplementedError(
          absl::StrCat("LibTorch's backend:", backend.name, " is for 16-bit types on GPUs"));
    }
  }
  return absl::OkStatus();
}

}  // namespace roofbench
