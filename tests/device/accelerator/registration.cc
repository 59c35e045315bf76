// SPDX-License-Identifier: Apache-2.0
// The interface that LibTorch requires of a device: memory, copies, generators, and the list of operators.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstring>
#include <utility>

#include "tests/device/accelerator/state.h"

namespace roofbench::accelerator {
namespace {

const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr host = c10::GetCPUAllocator()->allocate(bytes);
    // Never zeros by chance: NaN in every type of floating point.
    void* const data = host.get();
    if (bytes > 0) std::memset(data, 0xff, bytes);
    const c10::DeleterFnPtr free = host.get_deleter();
    return {data, host.release_context(), free, kDevice};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};
Memory g_memory;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &g_memory);

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDevice.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
};

at::Tensor Empty(c10::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &g_memory, kKeys, type.value_or(at::kFloat), format);
}

at::Tensor EmptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> type,
                        std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &g_memory, kKeys, type.value_or(at::kFloat));
}

// Between the device's own tensors it is a launch; from and to the host it is a wait.
at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool) {
  if (IsOnDevice(from) && IsOnDevice(to)) {
    static const c10::OperatorHandle copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
    torch::jit::Stack stack = {to, from, false};
    Fallback(copy, &stack);
    return to;
  }
  if (to.numel() == 0) return to;
  Synchronize("a copy between the host and the device");
  OnHost(to).copy_(OnHost(from));
  return to;
}

at::Scalar Item(const at::Tensor& tensor) {
  Synchronize("aten::_local_scalar_dense");
  return OnHost(tensor).item();
}

const at::Tensor& Resize(const at::Tensor& tensor, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(size)) * tensor.element_size();
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (bytes > tensor.storage().nbytes()) {
    impl->set_storage_keep_dtype(c10::Storage(c10::Storage::use_byte_size_t(), bytes, &g_memory, true));
  }
  impl->set_sizes_contiguous(size);
  return tensor;
}

using torch::CppFunction;

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) { library.fallback(CppFunction::makeFromBoxedFunction<&Fallback>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("_copy_from", &CopyFrom);
  library.impl("_copy_from_and_resize", [](const at::Tensor& from, const at::Tensor& to) {
    Resize(to, from.sizes(), std::nullopt);
    return CopyFrom(from, to, false);
  });
  library.impl("_local_scalar_dense", &Item);
  library.impl("resize_", &Resize);
  // One kernel on a GPU, and many operators on devices without it.
  for (const char* name :
       {"native_layer_norm", "_fused_rms_norm", "_foreach_add_.Scalar", "_foreach_mul_.Scalar", "_foreach_lerp_.Scalar",
        "_foreach_addcmul_.Scalar", "_foreach_sqrt", "_foreach_div_.Scalar", "_foreach_addcdiv_.Scalar",
        "_foreach_add_.List", "embedding_dense_backward", "silu_backward", "_fused_adamw_", "_grouped_mm"}) {
    library.impl(name, CppFunction::makeFromBoxedFunction<&Fallback>());
  }
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) { library.fallback(CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, library) {
#define ROOFBENCH_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define ROOFBENCH_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  using namespace at::autocast;  // NOLINT(google-build-using-namespace): the macros name its members
  auto& m = library;
  AT_FORALL_LOWER_PRECISION_FP(ROOFBENCH_LOWER)
  AT_FORALL_FP32(ROOFBENCH_FP32)
#undef ROOFBENCH_LOWER
#undef ROOFBENCH_FP32
}

}  // namespace

State& TheState() {
  static auto* state = new State();
  return *state;
}

at::Device TheDevice() {
  static const bool registered = [] {
    c10::register_privateuse1_backend("accelerator");
    at::RegisterPrivateUse1HooksInterface(new Hooks());
    return true;
  }();
  (void)registered;
  return kDevice;
}

Counts Counts::operator-(const Counts& before) const {
  Counts since = *this;
  since.launches -= before.launches;
  since.synchronizations -= before.synchronizations;
  for (const auto& [name, count] : before.operators) since.operators[name] -= count;
  return since;
}

const Counts& CountsNow() { return TheState().counts; }
void OnLaunch(std::function<void()> launch) { TheState().launch = std::move(launch); }
void OnWait(std::function<void()> wait) { TheState().wait = std::move(wait); }

void Synchronize(const std::string& what) {
  State& state = TheState();
  TORCH_CHECK(state.recorded == nullptr, what, ": operation not permitted when stream is capturing");
  ++state.counts.synchronizations;
  if (state.wait) state.wait();
}

at::Tensor OnHost(const at::Tensor& tensor) {
  if (!IsOnDevice(tensor)) return tensor;
  c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(),
                       c10::DataPtr(tensor.storage().mutable_data(), at::kCPU), nullptr, false);
  at::Tensor host = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return host;
}

at::Tensor OnDevice(const at::Tensor& tensor) {
  const auto keep = [](void* context) { delete static_cast<at::Tensor*>(context); };
  c10::DataPtr data(tensor.storage().mutable_data(), new at::Tensor(tensor), keep, kDevice);
  c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(), std::move(data), &g_memory, true);
  at::Tensor there = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), kKeys, tensor.dtype());
  there.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return there;
}

}  // namespace roofbench::accelerator
