// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/describe.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/text.h"
#include "lib/device/unverified.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

// Whether it launches a kernel that no GPU has run.
bool AwaitsAGpu(const Implementation& one) {
  const Proof proof = one.GpuProof();
  return proof == Proof::kUnverified || proof == Proof::kEmulated;
}

// Remark on facts that the name does not convey.
std::string Remark(const Implementation& one) {
  std::vector<std::string> remarks;
  if (one.on_cpu != one.on_gpu) remarks.emplace_back(one.on_cpu ? "on processors alone" : "on GPUs alone");
  if (AwaitsAGpu(one)) remarks.push_back(absl::StrCat(View(Name(one.GpuProof())), " on GPUs"));
  if (!one.dtypes.empty()) remarks.push_back(absl::StrCat("for ", absl::StrJoin(one.dtypes, ", ")));
  if (!one.limits.empty()) remarks.push_back(one.limits);
  return absl::StrJoin(remarks, "; ");
}

Json DescribeImplementation(const Implementation& one) {
  Json devices = Json::array();
  if (one.on_cpu) devices.push_back("cpu");
  if (one.on_gpu) devices.push_back("cuda");
  return {{"name", one.name},     {"doc", one.doc},
          {"devices", devices},   {"dtypes", one.dtypes},
          {"limits", one.limits}, {"proof", {{"cpu", Name(one.CpuProof())}, {"cuda", Name(one.GpuProof())}}}};
}

}  // namespace

std::string DescribeAxes(const std::vector<Family>& families) {
  std::string text;
  std::map<std::string, std::string> shared;
  std::map<std::string, std::string> implementations;
  for (const Family& family : families) {
    absl::StrAppend(&text, family.name(), ": ", family.doc(), "\n");
    const std::vector<Point> points = family.Points();
    for (const AxisSpec& axis : family.axes()) {
      const std::string valid = axis.choices.empty()
                                    ? absl::StrCat(axis.fractions ? "number" : "whole number", "; registered ",
                                                   absl::StrJoin(ValuesIn(points, axis.name), ", "))
                                    : ExpectedValues(axis);
      absl::StrAppendFormat(&text, "  %-9s %s%s%s\n", axis.name, valid,
                            axis.default_value.empty() ? "" : absl::StrCat(" [", axis.default_value, "]"),
                            axis.doc.empty() ? "" : absl::StrCat("  (", axis.doc, ")"));
      if (const std::string doc = SharedAxisDoc(axis.name); !doc.empty()) shared[axis.name] = doc;
    }
    for (const Implementation& one : family.implementations()) {
      if (const std::string remark = Remark(one); !remark.empty()) {
        absl::StrAppendFormat(&text, "  %-9s %s: %s\n", "", one.name, remark);
      }
      if (!one.doc.empty()) implementations[one.name] = one.doc;
    }
  }
  absl::StrAppend(&text, "\nAxes that mean the same in every family\n");
  for (const auto& [axis, doc] : shared) absl::StrAppendFormat(&text, "  %-9s %s\n", axis, doc);
  absl::StrAppend(&text, "\nImplementations\n");
  for (const auto& [name, doc] : implementations) absl::StrAppendFormat(&text, "  %-9s %s\n", name, doc);
  // Kernels that no case of the program uses are not worth mentioning.
  const bool has_unverified = std::any_of(families.begin(), families.end(), [](const Family& family) {
    return std::any_of(family.implementations().begin(), family.implementations().end(), AwaitsAGpu);
  });
  return has_unverified ? absl::StrCat(text, DescribeUnverified()) : text;
}

Json DescribeFamily(const Family& family) {
  Json implementations = Json::array();
  for (const Implementation& one : family.implementations()) implementations.push_back(DescribeImplementation(one));
  return DescribeGrid(family, std::move(implementations));
}

Json DescribeFamilies(const std::vector<const Family*>& families) {
  Json described = Json::array();
  for (const Family* family : families) described.push_back(DescribeFamily(*family));
  return described;
}

}  // namespace roofbench
