// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/family.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <set>
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

// All combinations of the lists of `grid`, axes in the order of `specs`, the last axis varying fastest.
std::vector<AxisValues> Product(const std::vector<AxisSpec>& specs, const GridAxes& grid) {
  std::vector<AxisValues> product = {{}};
  for (const AxisSpec& spec : specs) {
    const auto given =
        std::find_if(grid.begin(), grid.end(), [&](const auto& axis) { return axis.first == spec.name; });
    const std::vector<std::string> values =
        given == grid.end() ? std::vector<std::string>{spec.default_value} : given->second.texts();
    std::vector<AxisValues> longer;
    for (const AxisValues& prefix : product) {
      for (const std::string& value : values) {
        longer.push_back(prefix);
        longer.back().emplace_back(spec.name, value);
      }
    }
    product = std::move(longer);
  }
  return product;
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

// The end of a refusal.
std::string LimitsOf(const Implementation& implementation) {
  return implementation.limits.empty() ? "" : absl::StrCat(": ", implementation.limits);
}

}  // namespace

std::string_view Name(Suite suite) {
  constexpr std::string_view kNames[] = {"quick", "standard", "full"};
  return kNames[static_cast<int>(suite)];
}

AxisList::AxisList(std::initializer_list<AxisValue> values) {
  for (const AxisValue& value : values) texts_.push_back(value.text);
}

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

Family::Family(FamilyParts parts) : parts_(std::move(parts)) {
  for (Implementation& one : parts_.implementations) {
    const auto* const known =
        std::ranges::find(kImplementationDocs, one.name, [](const auto& row) { return row.first; });
    if (one.doc.empty() && known != std::end(kImplementationDocs)) one.doc = known->second;
  }
  std::vector<AxisSpec> axes = parts_.axes;
  if (parts_.implementations.size() > 1) {
    axes.insert(axes.begin(), SharedAxis(kImplAxis, NamesOf(parts_.implementations), parts_.default_impl));
  }
  axes.push_back(SharedAxis(kCacheAxis, {kCold, kWarm}, parts_.default_cache));
  axes_ = std::make_shared<const std::vector<AxisSpec>>(std::move(axes));
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
  if (parts_.grids.empty()) return "it has no points";
  if (!parts_.cost || !parts_.build) return "it needs work, operands and an implementation";
  const auto find = [&](const std::string& name) {
    return std::find_if(axes_->begin(), axes_->end(), [&](const AxisSpec& axis) { return axis.name == name; });
  };
  for (const auto& [suite, grid] : parts_.grids) {
    for (const auto& [name, list] : grid) {
      if (find(name) == axes_->end()) return absl::StrCat("its points use unknown axis '", name, "'");
    }
  }
  for (const Point& point : Points(Suite::kFull)) {
    for (const auto& [name, value] : point.values()) {
      const AxisSpec& axis = *find(name);
      if (ValidValue(axis, *axes_, value)) continue;
      return absl::StrCat("'", value, "' is not a value of its axis ", name, " (", ExpectedValues(axis), ")");
    }
  }
  return {};
}

std::vector<Point> Family::Points(Suite suite) const {
  std::vector<Point> points;
  std::set<std::string> seen;
  for (const auto& [from, grid] : parts_.grids) {
    if (from > suite) continue;
    for (AxisValues& values : Product(*axes_, grid)) {
      Point point(name(), axes_.get(), std::move(values));
      if (seen.insert(point.Name()).second) points.push_back(std::move(point));
    }
  }
  return points;
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
