// SPDX-License-Identifier: Apache-2.0
#include "lib/run/overwritten_element.h"

#include <algorithm>
#include <vector>

#include "lib/suite/check.h"
#include "lib/timing/exchanges.h"

namespace roofbench {
namespace {

using timing::Below;

std::byte* FirstOf(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

}  // namespace

OverwrittenElement::OverwrittenElement(const Case& built, std::mt19937_64& random) : built_(&built) {
  const std::vector<at::Tensor> results = WholeResult(built);
  if (results.empty()) return;
  tensor_ = static_cast<std::size_t>(Below(std::ssize(results), random));
  const at::Tensor& result = results[tensor_];
  // A small integer may be what another step leaves.
  constexpr int64_t kFewestBytesOfInteger = 4;
  const int64_t fewest = result.is_floating_point() ? 1 : kFewestBytesOfInteger;
  bytes_ = result.element_size();
  if (!result.is_cpu() || !result.has_storage() || result.numel() == 0 || bytes_ < fewest || bytes_ > kMostBytes)
    return;
  for (int64_t dim = 0; dim < result.dim(); ++dim) place_ += Below(result.size(dim), random) * result.stride(dim);
  place_ *= bytes_;
  storage_ = result.storage().getWeakStorageImpl();
  element_ = FirstOf(result) + place_;
  if (result.is_floating_point()) {
    left_.fill(std::byte{0xff});  // NaN
  } else {
    // At random: the element may be wrong already, in a way that another change by rule would make right.
    std::generate_n(left_.begin(), bytes_, [&] { return static_cast<std::byte>(Below(256, random)); });
  }
}

void OverwrittenElement::Overwrite() {
  if (!storage_ || storage_->expired()) return;
  std::copy_n(left_.begin(), bytes_, element_);
  is_overwritten_ = true;
}

absl::Status OverwrittenElement::Check() const {
  if (!is_overwritten_) return absl::OkStatus();
  const std::vector<at::Tensor> results = WholeResult(*built_);
  if (tensor_ >= results.size() || !results[tensor_].is_cpu()) return absl::OkStatus();
  const at::Tensor& result = results[tensor_];
  const auto held = static_cast<int64_t>(result.storage().nbytes());
  const bool is_same_kind = result.element_size() == bytes_;
  if (!is_same_kind || (result.storage_offset() + 1) * bytes_ + place_ > held) return absl::OkStatus();
  const std::byte* const element = FirstOf(result) + place_;
  if (!std::equal(element, element + bytes_, left_.begin())) return absl::OkStatus();
  return absl::DataLossError("wrong result: the step left an element as it had been overwritten right before it");
}

}  // namespace roofbench
