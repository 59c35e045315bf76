// SPDX-License-Identifier: Apache-2.0
#include "lib/device/unverified.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

constexpr char kStreams[] = "lib/hardware/roofs/stream_kernels_cuda.cu";
constexpr char kRows[] = "lib/kernels/cuda/rows_cuda.cu";

// tests/structure compares the rows with the sources.
const std::initializer_list<UnverifiedKernel> kTable = {
    {"Spin", "lib/timing/spin_cuda.cu", true},
    {"ReadStream", kStreams, true},
    {"CopyStream", kStreams, true},
    {"UpdateStream", kStreams, true},
    {"WriteStream", kStreams, true},
    {"RmsNormRows", kRows, true},
    {"LayerNormRows", kRows, true},
    {"SoftmaxRows", kRows, true},
    {"GemvRows", "lib/kernels/cuda/gemv_cuda.cu", true},
    {"InductorPackage", "lib/suite/steps/compiled.cc"},
    {"NcclGroup", "lib/ranks/nccl_cuda.cc"},
    {"SharedStep", "lib/models/training/parallel.cc"},
};

}  // namespace

const UnverifiedKernel* FindUnverified(std::string_view kernel) {
  const auto* const found = std::ranges::find(kTable, kernel, &UnverifiedKernel::kernel);
  return found == std::end(kTable) ? nullptr : found;
}

std::string DescribeUnverified() {
  std::string text =
      "\nunverified: no GPU has run these yet; --unverified runs the cases that need them\n"
      "            (emulated: they are right on a stand-in for a GPU)\n";
  for (const UnverifiedKernel& row : kTable) {
    absl::StrAppend(&text, "  ", View(row.kernel), "  (", View(row.file), ")", row.emulated ? "  emulated" : "", "\n");
  }
  return text;
}

}  // namespace roofbench
