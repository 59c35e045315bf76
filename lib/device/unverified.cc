// SPDX-License-Identifier: Apache-2.0
#include "lib/device/unverified.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

constexpr char kStreams[] = "lib/hardware/roofs/stream_kernels_cuda.cu";
constexpr char kRows[] = "lib/kernels/cuda/rows_cuda.cu";

// tests/structure holds the rows against the sources.
constexpr UnverifiedKernel kTable[] = {
    {"Spin", "lib/timing/spin_cuda.cu"},
    {"ReadStream", kStreams},
    {"CopyStream", kStreams},
    {"UpdateStream", kStreams},
    {"WriteStream", kStreams},
    {"RmsNormRows", kRows},
    {"LayerNormRows", kRows},
    {"SoftmaxRows", kRows},
    {"GemvRows", "lib/kernels/cuda/gemv_cuda.cu"},
};

}  // namespace

std::span<const UnverifiedKernel> UnverifiedKernels() { return kTable; }

bool IsUnverified(std::string_view kernel) {
  return std::any_of(std::begin(kTable), std::end(kTable),
                     [&](const UnverifiedKernel& row) { return row.kernel == kernel; });
}

std::string DescribeUnverified() {
  std::string text = "\nunverified: no GPU has run these kernels yet; --unverified runs the cases that need them\n";
  for (const UnverifiedKernel& row : kTable) {
    absl::StrAppend(&text, "  ", View(row.kernel), "  (", View(row.file), ")\n");
  }
  return std::size(kTable) == 0 ? std::string() : text;
}

}  // namespace roofbench
