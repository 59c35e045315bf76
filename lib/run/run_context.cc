// SPDX-License-Identifier: Apache-2.0
#include "lib/run/run_context.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/process.h"
#include "lib/base/text.h"
#include "lib/hardware/machine_facts.h"
#include "lib/hardware/pressure.h"
#include "lib/results/start_facts.h"
#include "lib/run/doctor.h"
#include "roofbench_version.h"

namespace roofbench {
namespace {

#if defined(__clang__)
#define ROOFBENCH_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define ROOFBENCH_COMPILER "gcc " __VERSION__
#else
#define ROOFBENCH_COMPILER "unknown"
#endif

constexpr char kLibrary[] = "roofbench";

// The oneDNN version from LibTorch's build description: "…MKL-DNN v3.7.1 (Git Hash …)…"; empty if it contains none.
std::string OneDnnVersion() {
  const std::string config = at::show_config();
  constexpr std::string_view kBefore = "MKL-DNN v";
  const std::size_t at = config.find(kBefore);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kBefore.size();
  return config.substr(begin, config.find_first_not_of("0123456789.", begin) - begin);
}

constexpr std::size_t kLongestCommand = 1000;  // readers of results limit the length of a fact

}  // namespace

absl::StatusOr<RunIdentity> IdentityOf(const RunOptions& options, const Device& device) {
  absl::StatusOr<std::string> program = HashOfFile("/proc/self/exe");
  if (!program.ok()) return program.status();
  return RunIdentity{
      {"program", *std::move(program)},
      {"device", absl::StrCat(device.kind(), ", ", device.name(), ", ", device.threads(), " threads")},
      {"flags", absl::StrJoin(options.measuring_flags, " ")},
  };
}

std::string VersionLine(const RunOptions& options) {
  const std::string library =
      absl::StrCat(kLibrary, " ", ROOFBENCH_VERSION, " (", ROOFBENCH_GIT_REVISION, "), LibTorch ", TORCH_VERSION);
  if (ProgramName() == kLibrary) return library;
  const std::string& revision = options.program_revision;
  return absl::StrCat(ProgramName(), revision.empty() ? "" : absl::StrCat(" (", revision, ")"), ", with ", library);
}

RunFacts RunContext(const RunOptions& options, const Device& device, const RoofOrigin& roofs) {
  RunFacts context = StartFacts();
  const RunFacts settings = {
      {"roofbench_version", ROOFBENCH_VERSION},
      {"roofbench_revision", ROOFBENCH_GIT_REVISION},
      {"build_type", ROOFBENCH_BUILD_TYPE},
      {"optimized", ROOFBENCH_OPTIMIZED ? "true" : "false"},
      {"torch_version", TORCH_VERSION},
      {"device_kind", device.kind()},
      {"device", device.name()},
      {"threads", absl::StrCat(device.threads())},
      {"seed", absl::StrCat(options.seed)},
      {"allocator", std::string(Name(options.allocator))},
      {"reference", options.reference},
      {"suite", std::string(Name(options.suite))},
      {"check", options.check ? "on" : "off"},
  };
  context.insert(context.end(), settings.begin(), settings.end());
  if (ProgramName() != kLibrary) {
    context.insert(context.begin(), {"program", ProgramName()});
    if (!options.program_revision.empty()) context.emplace_back("program_revision", options.program_revision);
  }
  if (!options.command_line.empty())
    context.emplace_back("command_line", Excerpt(options.command_line, kLongestCommand));
  if (auto waiting = hardware::WaitingFact()) context.push_back(*std::move(waiting));
  context.emplace_back("compiler", ROOFBENCH_COMPILER);
  if (const std::string onednn = OneDnnVersion(); !onednn.empty()) context.emplace_back("onednn_version", onednn);
  for (auto& fact : device.Context()) context.push_back(std::move(fact));
  for (auto& fact : hardware::MachineFacts()) context.push_back(std::move(fact));
  // --doctor measures these for eleven seconds; here they come from the calibration, which every run has.
  context.emplace_back("roofs", roofs.text);
  context.emplace_back("other_load", OtherLoadText(roofs.other_load));
  context.emplace_back("memory_speed", MemorySpeedText(device.MemorySpeed(), "while the roofs were measured"));
  for (const auto& [name, rate] : workload::KnownRates(device.MeasuredPeaks())) {
    context.emplace_back(absl::StrCat("roof_", View(name)), absl::StrFormat("%.6g", rate));
  }
  return context;
}

std::string DescribeRun(const RunOptions& options, const Device& device, const std::string& roofs, std::size_t width) {
  std::vector<std::string> memory;
  std::vector<std::string> arithmetic;
  for (const auto& [name, rate] : workload::KnownRates(device.MeasuredPeaks())) {
    const bool is_dtype = workload::ParseDtype(name).has_value();
    (is_dtype ? arithmetic : memory)
        .push_back(absl::StrCat(View(name), " ", HumanRate(rate, is_dtype ? "FLOP/s" : "B/s")));
  }
  std::vector<std::string> rates;
  for (const auto* some : {&memory, &arithmetic}) {
    if (!some->empty()) rates.push_back(absl::StrJoin(*some, ", "));
  }
  const hardware::Datasheet& reference = *hardware::FindDatasheet(options.reference);
  const std::string lines[] = {
      VersionLine(options),
      absl::StrCat(device.name(), ", ", Counted(static_cast<std::size_t>(device.threads()), "thread")),
      absl::StrCat(roofs == "measured" ? "measured roofs" : absl::StrCat("roofs ", View(roofs)),
                   rates.empty() ? "" : ": ", absl::StrJoin(rates, "; ")),
      absl::StrCat("roof: share of the roof measured with the case; ", View(reference.prefix), ": share of the ",
                   View(reference.title), " datasheet")};
  std::string text;
  for (const std::string& line : lines) {
    absl::StrAppend(&text, absl::StrJoin(Wrapped(absl::StrSplit(line, ' '), width), "\n  "), "\n");
  }
  if (!ROOFBENCH_OPTIMIZED) {
    absl::StrAppend(&text, "*** This build (", ROOFBENCH_BUILD_TYPE,
                    ") is not optimized: its times mean nothing. ***\n");
  }
  return text;
}

}  // namespace roofbench
