// SPDX-License-Identifier: Apache-2.0
#include "lib/run/run_context.h"

#include <ATen/Context.h>
#include <torch/headeronly/version.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/text.h"
#include "roofbench_version.h"

namespace roofbench {
namespace {

// The measured roofs by name, as far as they are known.
std::vector<std::pair<std::string, double>> Roofs(const workload::Peaks& peaks) {
  std::vector<std::pair<std::string, double>> roofs = {
      {"read", peaks.read}, {"copy", peaks.copy}, {"update", peaks.update}, {"write", peaks.write}};
  for (const workload::Dtype dtype : workload::kDtypes) {
    roofs.emplace_back(workload::Name(dtype), peaks.flops_per_second[workload::Index(dtype)]);
  }
  std::erase_if(roofs, [](const auto& roof) { return roof.second <= 0; });
  return roofs;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> RunContext(const RunOptions& options, const Device& device) {
  std::vector<std::pair<std::string, std::string>> context = {
      {"roofbench_version", ROOFBENCH_VERSION},
      {"roofbench_revision", ROOFBENCH_GIT_REVISION},
      {"build_type", ROOFBENCH_BUILD_TYPE},
      {"optimized", ROOFBENCH_OPTIMIZED ? "true" : "false"},
      {"torch_version", TORCH_VERSION},
      {"device_kind", device.kind()},
      {"device", device.name()},
      {"threads", absl::StrCat(device.threads())},
      {"seed", absl::StrCat(options.seed)},
      {"reference", options.reference},
      {"suite", std::string(Name(options.suite))},
      {"check", options.check ? "on" : "off"},
  };
  for (auto& fact : device.Context()) context.push_back(std::move(fact));
  for (const auto& [name, rate] : Roofs(device.MeasuredPeaks())) {
    context.emplace_back(absl::StrCat("roof_", name), absl::StrFormat("%.6g", rate));
  }
  return context;
}

std::string DescribeRun(const RunOptions& options, const Device& device) {
  std::vector<std::string> memory;
  std::vector<std::string> arithmetic;
  for (const auto& [name, rate] : Roofs(device.MeasuredPeaks())) {
    const bool is_dtype = workload::ParseDtype(name).has_value();
    (is_dtype ? arithmetic : memory).push_back(absl::StrCat(name, " ", HumanRate(rate, is_dtype ? "FLOP/s" : "B/s")));
  }
  std::string text = absl::StrCat("roofbench ", ROOFBENCH_VERSION, " (", ROOFBENCH_GIT_REVISION, "), LibTorch ",
                                  TORCH_VERSION, "\n", device.name(), ", ", device.threads(), " threads\n");
  absl::StrAppend(&text, "measured roofs: ", absl::StrJoin(memory, ", "), "; ", absl::StrJoin(arithmetic, ", "), "\n");
  absl::StrAppend(&text, "roof: share of the roof measured beside the case; ",
                  View(hardware::FindDatasheet(options.reference)->prefix), ": share of the ",
                  View(hardware::FindDatasheet(options.reference)->title), " datasheet\n");
  if (!ROOFBENCH_OPTIMIZED) {
    absl::StrAppend(&text, "*** This build (", ROOFBENCH_BUILD_TYPE,
                    ") is not optimised: its times mean nothing. ***\n");
  }
  return text;
}

}  // namespace roofbench
