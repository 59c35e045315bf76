// SPDX-License-Identifier: Apache-2.0
// --describe_checkpoint: what a model would need and how fast it could be here, before anything of it is loaded.

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/text.h"
#include "lib/cli/flags.h"
#include "lib/models/checkpoint/checkpoint_summary.h"
#include "lib/models/decoding/stored_matrix.h"
#include "lib/run/doctor.h"
#include "lib/run/roof_stage.h"

namespace roofbench {
namespace {

std::string folder;

absl::StatusOr<std::string> Describe(const std::string& format, const FamilyFlags::Open& open) {
  const std::string flag = absl::StrCat("--describe_checkpoint=", folder);
  const absl::StatusOr<models::Checkpoint> checkpoint = models::Checkpoint::Open(folder);
  if (!checkpoint.ok()) {
    return absl::Status(checkpoint.status().code(), absl::StrCat(flag, ": ", checkpoint.status().message()));
  }
  const auto opened = open(hardware::StreamsAnd(
      {workload::Dtype::kFp32, workload::Dtype::kBf16, workload::Dtype::kFp16, workload::Dtype::kInt8}));
  if (!opened.ok()) return opened.status();
  const Device& device = *opened->device;
  const RoofOrigin& roofs = opened->roofs;
  models::CheckpointSummary summary = models::Summarize(*checkpoint, device.MeasuredPeaks());
  for (models::PrecisionSummary& row : summary.precisions) {
    row.fits.Update(models::StoredMatrix::CheckDevice(row.format, device.torch_device()));
  }
  const double free_bytes = device.FreeMemoryBytes();
  if (format == "json") {
    nlohmann::ordered_json json = models::SummaryJson(summary);
    json.update({{"notes", checkpoint->notes()},
                 {"device", Printable(device.name())},
                 {"threads", device.threads()},
                 {"roofs", roofs.text},
                 {"others_share", roofs.other_load ? nlohmann::ordered_json(*roofs.other_load) : nullptr},
                 {"free_memory_bytes", static_cast<int64_t>(free_bytes)}});
    return absl::StrCat(json.dump(1), "\n");
  }
  std::string text = absl::StrCat(Printable(folder), "\n", models::SummaryText(summary));
  for (const std::string& note : checkpoint->notes()) absl::StrAppend(&text, note, "\n");
  const double taken = roofs.other_load.value_or(0);
  const std::string busy =
      BusyText(taken).empty()
          ? ""
          : absl::StrFormat(
                "Other programs took %.0f %% of the processors meanwhile: alone, the machine allows more.\n",
                100 * taken);
  return absl::StrCat(
      text, "\ntokens/s: what the roof of this machine allows, ", roofs.text == "off" ? "with --roofs=off" : roofs.text,
      " (", Printable(device.name()), ", ", device.threads(), " threads, ", models::ReadRoofText(summary),
      "), one sequence;\n- where a roof is not known. ", HumanBytes(free_bytes), " of memory are free.\n", busy);
}

absl::Status ReadFolder(const std::string& text) {
  if (text.empty()) return Expected("FOLDER");
  folder = text;
  return absl::OkStatus();
}

const FlagRegistration kQuestion(
    {.flags = {{"describe_checkpoint", "FOLDER", FlagTarget{.read = ReadFolder},
                "print the tensors, sizes, memory and roof of a checkpoint from its headers alone, and exit"}},
     .answer = Describe});

}  // namespace
}  // namespace roofbench
