// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/onednn.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SymInt.h>

#include <optional>
#include <string_view>

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

}  // namespace roofbench
