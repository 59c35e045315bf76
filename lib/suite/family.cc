// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/family.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/device/unverified.h"

namespace roofbench {
namespace {

std::vector<Family>& MutableFamilies() {
  static auto* families = new std::vector<Family>();
  return *families;
}

[[noreturn]] void Refuse(const Family& family, const std::string& reason) {
  std::fprintf(stderr, "roofbench: family '%s' cannot be registered: %s\n", family.name().c_str(), reason.c_str());
  std::exit(EXIT_FAILURE);
}

// The docs of implementation names that several families share.
constexpr std::pair<std::string_view, std::string_view> kImplementationDocs[] = {
    {"eager", "LibTorch's own operators"},
    {"onednn", "LibTorch's oneDNN linear layer, weights prepacked where they can be"},
    {"compiled", "compiled by LibTorch's Inductor"},
    {"native", "our own kernels"},
    {"graph", "eager, recorded once as a CUDA graph"},
    {"naive", "its operations one by one, LibTorch's"},
    {"sdpa", "LibTorch's scaled_dot_product_attention"},
    {"gloo", "LibTorch's process group over Gloo, by TCP"},
    {"nccl", "LibTorch's process group over NCCL"},
    {"stream", "the loop that the memory roof is measured with"},
};

// Takes the axes and points.
GridParts GridOf(FamilyParts& parts) {
  std::vector<AxisSpec> axes = std::move(parts.axes);
  if (parts.implementations.size() > 1) {
    axes.push_back(SharedAxis(kImplAxis, NamesOf(parts.implementations), parts.default_impl));
  }
  return {.name = parts.name,
          .doc = parts.doc,
          .axes = WithCacheAxis(std::move(axes), parts.default_cache),
          .grids = std::move(parts.grids),
          .growth = parts.growth};
}

// The end of a refusal.
std::string LimitsOf(const Implementation& implementation) {
  return implementation.limits.empty() ? "" : absl::StrCat(": ", implementation.limits);
}

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
    const UnverifiedKernel* const row = FindUnverified(kernel);
    if (row != nullptr) least = std::min(least, row->emulated ? Proof::kEmulated : Proof::kUnverified);
  }
  return least;
}

absl::Status SupportsImplementation(const Implementation& implementation, const Point& point, const Device& device) {
  const bool on_gpu = device.gpu() != nullptr;
  if (on_gpu ? !implementation.on_gpu : !implementation.on_cpu) {
    return absl::UnimplementedError(absl::StrCat(kImplAxis, ":", implementation.name, " runs on ",
                                                 on_gpu ? "processors" : "GPUs", " alone", LimitsOf(implementation)));
  }
  const std::vector<std::string>& dtypes = implementation.dtypes;
  const char* const axis = point.Has(kDtypeAxis) ? kDtypeAxis : kPrecisionAxis;
  if (!dtypes.empty() && std::find(dtypes.begin(), dtypes.end(), point.Text(axis)) == dtypes.end()) {
    return absl::UnimplementedError(absl::StrCat(kImplAxis, ":", implementation.name, " is for ", axis, ":",
                                                 absl::StrJoin(dtypes, ", "), LimitsOf(implementation)));
  }
  return absl::OkStatus();
}

absl::Status SupportsThreads(const Point& point, const Device& device) {
  const double threads = point.Number(kThreadsAxis);
  if (threads > 0 && device.gpu() != nullptr) {
    return absl::UnimplementedError("a GPU's own threads cannot be chosen: threads:0");
  }
  if (threads != std::floor(threads) || threads > device.threads()) {
    return absl::UnimplementedError(absl::StrCat("threads:", point.Text(kThreadsAxis),
                                                 " is not a whole number up to the ", device.threads(),
                                                 " of this run (--threads)"));
  }
  return absl::OkStatus();
}

int ThreadsAt(const Point& point, const Device& device) {
  const auto threads = static_cast<int>(point.Int(kThreadsAxis));
  return threads > 0 ? threads : device.threads();
}

absl::Status CheckVerified(const Implementation& implementation, const Point& point, const Device& device) {
  std::vector<std::string_view> kernels = implementation.kernels;
  if (implementation.kernels_at) {
    for (const std::string_view own : implementation.kernels_at(point)) kernels.push_back(own);
  }
  const auto kernel = std::ranges::find_if(kernels, FindUnverified);
  if (device.gpu() == nullptr || kernel == kernels.end()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("unverified: no GPU has run ", std::string(*kernel), " yet (--unverified runs it)"));
}

Family::Family(FamilyParts parts) : FamilyGrid(GridOf(parts)), parts_(std::move(parts)) {
  for (Implementation& one : parts_.implementations) {
    const auto* const known =
        std::ranges::find(kImplementationDocs, one.name, [](const auto& row) { return row.first; });
    if (one.doc.empty() && known != std::end(kImplementationDocs)) one.doc = known->second;
  }
}

const Implementation* Family::ImplementationOf(const Point& point) const {
  for (const Implementation& one : parts_.implementations) {
    if (!point.Has(kImplAxis) || point.Text(kImplAxis) == one.name) return &one;
  }
  return nullptr;
}

absl::Status Family::SupportOf(const Point& point, const Device& device) const {
  return parts_.supports ? parts_.supports(point, device) : absl::OkStatus();
}

std::string Family::Problem() const {
  std::string problem = FamilyGrid::Problem();
  if (!problem.empty()) return problem;
  return parts_.cost && parts_.build ? "" : "it needs work, operands and an implementation";
}

Registration::Registration(Family family) {
  for (const Family& other : MutableFamilies()) {
    if (other.name() == family.name()) Refuse(family, "the name is taken");
  }
  const std::string problem = family.Problem();
  if (!problem.empty()) Refuse(family, problem);
  auto& families = MutableFamilies();
  families.insert(std::upper_bound(families.begin(), families.end(), family,
                                   [](const Family& a, const Family& b) { return a.name() < b.name(); }),
                  std::move(family));
}

const std::vector<Family>& Families() { return MutableFamilies(); }

const Family& FamilyNamed(const std::string& name) {
  for (const Family& family : MutableFamilies()) {
    if (family.name() == name) return family;
  }
  throw std::logic_error("no family is called " + name);
}

}  // namespace roofbench
