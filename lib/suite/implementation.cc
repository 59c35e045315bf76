// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/implementation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/device/unverified.h"
#include "lib/suite/shared_axes.h"

namespace roofbench {
namespace {

constexpr std::pair<std::string_view, std::string_view> kDocs[] = {
    {"eager", "LibTorch's own operators"},
    {"onednn", "LibTorch's oneDNN linear layer, weights prepacked where they can be"},
    {"compiled", "compiled by LibTorch's Inductor"},
    {"native", "our own kernels"},
    {"graph", "eager, recorded once as a CUDA graph"},
    {"naive", "its operations one by one, LibTorch's"},
    {"sdpa", "LibTorch's scaled_dot_product_attention"},
    {"stream", "the loop that the memory roof is measured with"},
};

}  // namespace

std::string_view Name(Proof proof) {
  constexpr std::string_view kNames[] = {"none", "unverified", "emulated", "checked"};
  return kNames[static_cast<int>(proof)];
}

Proof Implementation::CpuProof() const { return on_cpu ? Proof::kChecked : Proof::kNone; }

Proof Implementation::GpuProof() const {
  if (!on_gpu) return Proof::kNone;
  Proof least = Proof::kChecked;
  for (const std::string_view kernel : kernels) {
    if (IsUnverified(kernel)) least = std::min(least, IsEmulatedAlone(kernel) ? Proof::kEmulated : Proof::kUnverified);
  }
  return least;
}

absl::Status SupportsImplementation(const Implementation& implementation, const Point& point, const Device& device) {
  const bool on_gpu = device.gpu() != nullptr;
  if (on_gpu ? !implementation.on_gpu : !implementation.on_cpu) {
    return absl::UnimplementedError(
        absl::StrCat(kImplAxis, ":", implementation.name, " runs on ", on_gpu ? "processors" : "GPUs", " alone",
                     implementation.limits.empty() ? "" : absl::StrCat(": ", implementation.limits)));
  }
  const std::vector<std::string>& dtypes = implementation.dtypes;
  const char* const axis = point.Has(kDtypeAxis) ? kDtypeAxis : kPrecisionAxis;
  if (!dtypes.empty() && std::find(dtypes.begin(), dtypes.end(), point.Text(axis)) == dtypes.end()) {
    return absl::UnimplementedError(
        absl::StrCat(kImplAxis, ":", implementation.name, " is for ", axis, ":", absl::StrJoin(dtypes, ", "),
                     implementation.limits.empty() ? "" : absl::StrCat(": ", implementation.limits)));
  }
  return absl::OkStatus();
}

absl::Status CheckVerified(const Implementation& implementation, const Point& point, const Device& device) {
  std::vector<std::string_view> kernels = implementation.kernels;
  if (implementation.kernels_at) {
    for (const std::string_view own : implementation.kernels_at(point)) kernels.push_back(own);
  }
  const auto kernel = std::find_if(kernels.begin(), kernels.end(), IsUnverified);
  if (device.gpu() == nullptr || kernel == kernels.end()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("unverified: no GPU has run ", std::string(*kernel), " yet (--unverified runs it)"));
}

std::string_view ImplementationDoc(std::string_view name) {
  for (const auto& [known, doc] : kDocs) {
    if (known == name) return doc;
  }
  return {};
}

}  // namespace roofbench
