// SPDX-License-Identifier: Apache-2.0
// Runs operators on the CPU: tensors of the device become views of their memory, and results move to the device.

#include <ATen/core/op_registration/op_registration.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <set>
#include <utility>

#include "tests/device/accelerator/state.h"

namespace roofbench::accelerator {
namespace {

using torch::jit::Stack;

// Shapes of their results depend on numbers, or they return one.
const std::set<std::string> kWaiting = {"aten::nonzero",           "aten::masked_select",      "aten::equal",
                                        "aten::_unique2",          "aten::unique_dim",         "aten::is_nonzero",
                                        "aten::repeat_interleave", "aten::_local_scalar_dense"};

// Operators that a GPU computes, with the statistics that they leave and take, in fp32 where the processor does not.
const std::set<std::string> kWide = {"aten::native_layer_norm", "aten::native_layer_norm_backward"};

at::ScalarType Widened(at::ScalarType type) { return c10::isReducedFloatingType(type) ? at::kFloat : type; }

// Calls visit(tensor) for every tensor of a value.
template <typename Visit>
void EachTensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      if (tensor) visit(*tensor);
    }
  }
}

// The value with every tensor of it replaced.
template <typename Change>
c10::IValue Changed(const c10::IValue& value, Change change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> changed;
    for (const at::Tensor& tensor : value.toTensorVector()) changed.push_back(change(tensor));
    return changed;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> changed;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      changed.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    }
    return changed;
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(at::kCPU);
  return value;
}

void CheckDevices(const std::string& name, const Stack& arguments) {
  for (const c10::IValue& argument : arguments) {
    EachTensor(argument, [&](const at::Tensor& tensor) {
      TORCH_CHECK(!tensor.defined() || IsOnDevice(tensor) || (tensor.is_cpu() && tensor.dim() == 0), name,
                  ": expected all tensors to be on the same device, but found one of shape ", tensor.sizes(), " on ",
                  tensor.device());
      TORCH_CHECK(!IsOnDevice(tensor) || tensor.storage().device() == tensor.device(), name,
                  ": the memory of a tensor on ", tensor.device(), " is on ", tensor.storage().device());
    });
  }
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// The device's tensor that has been given this result: one that the operator wrote to, or a view of one it was given.
std::optional<at::Tensor> Given(const at::Tensor& result, const Stack& arguments) {
  std::optional<at::Tensor> found;
  for (const c10::IValue& argument : arguments) {
    EachTensor(argument, [&](const at::Tensor& tensor) {
      if (found || !IsOnDevice(tensor) || result.storage().nbytes() == 0) return;
      if (tensor.storage().data() != result.storage().data()) return;
      at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
          c10::Storage(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), result.dtype());
      view.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(), result.storage_offset());
      found = view;
    });
  }
  return found;
}

// Runs the operator on the host's views of the arguments, which `stack` holds, and leaves the host's results. `written`
// gets each argument that is written to and still empty, with the host tensor that the operator writes in its place.
void RunOnHost(const c10::OperatorHandle& op, const Stack& arguments, bool keep_memory, Stack& stack,
               std::vector<std::pair<at::Tensor, at::Tensor>>& written) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_written = IsWritten(op.schema().arguments()[i]);
    stack.push_back(Changed(arguments[i], [&](const at::Tensor& tensor) -> at::Tensor {
      if (!IsOnDevice(tensor)) return tensor;
      at::Tensor host = OnHost(tensor);
      if (is_written && tensor.numel() == 0) {
        host = at::empty(tensor.sizes(), host.options());
        written.emplace_back(tensor, host);
      } else if (is_written && keep_memory) {
        host = host.clone();
      }
      return host;
    }));
  }
  if (kWide.contains(op.schema().name())) {
    const at::ScalarType type = arguments[0].toTensor().scalar_type();
    for (c10::IValue& value : stack) {
      value = Changed(value, [](const at::Tensor& tensor) {
        return tensor.defined() ? tensor.to(Widened(tensor.scalar_type())) : tensor;
      });
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    // The forward pass stores its statistics after y.
    const std::size_t narrow = op.schema().name() == "aten::native_layer_norm" ? 1 : stack.size();
    for (std::size_t i = 0; i < narrow; ++i) {
      if (stack[i].toTensor().defined()) stack[i] = stack[i].toTensor().to(type);
    }
    return;
  }
  // An operator with several outputs returns references into the stack that it has dropped by then.
  const Stack kept_alive = stack;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

// A result that the operator wrote into an argument is the argument.
std::optional<at::Tensor> WrittenArgument(const c10::FunctionSchema& schema, std::size_t result,
                                          const Stack& arguments) {
  const c10::AliasInfo* const alias = schema.returns()[result].alias_info();
  if (alias == nullptr || !alias->isWrite()) return std::nullopt;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const own = schema.arguments()[i].alias_info();
    if (own != nullptr && own->beforeSets() == alias->beforeSets() && arguments[i].isTensor()) {
      return arguments[i].toTensor();
    }
  }
  return std::nullopt;
}

class OnHostRecording final : public Recording {
 public:
  explicit OnHostRecording(std::vector<RecordedOperator> operators) : operators_(std::move(operators)) {}
  void Replay() const override {
    for (const RecordedOperator& one : operators_) {
      if (one.kernel) {
        one.kernel();
        continue;
      }
      Stack stack;
      std::vector<std::pair<at::Tensor, at::Tensor>> written;
      RunOnHost(*one.op, one.arguments, /*keep_memory=*/false, stack, written);
      for (auto& [tensor, host] : written) TORCH_CHECK(host.numel() == 0, "a replay changed a shape");
      for (std::size_t i = 0; i < one.results.size(); ++i) {
        if (!one.results[i].isTensor() || !one.results[i].toTensor().defined()) continue;
        const at::Tensor kept = OnHost(one.results[i].toTensor());
        const at::Tensor made = stack[i].toTensor();
        if (kept.storage().data() != made.storage().data()) kept.copy_(made);
      }
    }
  }
  int64_t launches() const override { return static_cast<int64_t>(operators_.size()); }

 private:
  std::vector<RecordedOperator> operators_;
};

}  // namespace

void Fallback(const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(schema.arguments().size()), stack->end());
  CheckDevices(name, arguments);
  CheckRules(name, arguments);
  if (kWaiting.contains(name)) Synchronize(name);
  State& state = TheState();
  Stack host;
  std::vector<std::pair<at::Tensor, at::Tensor>> resized;
  RunOnHost(op, arguments, /*keep_memory=*/state.recorded != nullptr, host, resized);
  for (auto& [tensor, made] : resized) {
    if (made.numel() == 0) continue;
    c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(OnDevice(made).storage());
    impl->set_sizes_and_strides(made.sizes(), made.strides(), made.storage_offset());
  }
  torch::jit::drop(*stack, arguments.size());
  bool is_view = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) is_view = is_view && !IsWritten(schema.arguments()[i]);
  Stack results;
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (const auto written = WrittenArgument(schema, i, arguments)) {
      results.emplace_back(*written);
      continue;
    }
    results.push_back(Changed(host[i], [&](const at::Tensor& result) -> at::Tensor {
      if (!result.defined()) return result;
      if (const auto view = Given(result, arguments)) return *view;
      is_view = false;
      return OnDevice(result);
    }));
  }
  for (const c10::IValue& result : results) stack->push_back(result);
  if (is_view) return;
  ++state.counts.launches;
  ++state.counts.operators[name];
  if (state.recorded == nullptr) {
    if (state.launch) state.launch();
    return;
  }
  // Tensors that grew during recording have their memory now: a replay writes into it.
  state.recorded->push_back({.op = op, .arguments = arguments, .results = results});
}

void Launch(const std::string& name, std::function<void()> kernel) {
  State& state = TheState();
  ++state.counts.launches;
  ++state.counts.operators[name];
  if (state.recorded != nullptr) {
    state.recorded->push_back({.kernel = std::move(kernel)});
    return;
  }
  kernel();
  if (state.launch) state.launch();
}

std::unique_ptr<Recording> Record(const std::function<void()>& work) {
  State& state = TheState();
  TORCH_CHECK(state.recorded == nullptr, "the device records already");
  std::vector<RecordedOperator> operators;
  state.recorded = &operators;
  try {
    work();
  } catch (...) {
    state.recorded = nullptr;
    throw;
  }
  state.recorded = nullptr;
  return std::make_unique<OnHostRecording>(std::move(operators));
}

int64_t RecordedLaunches() {
  const State& state = TheState();
  return state.recorded == nullptr ? 0 : static_cast<int64_t>(state.recorded->size());
}

}  // namespace roofbench::accelerator
