#include "lib/harness/unverified.h"

#include "absl/strings/str_cat.h"
#include "lib/harness/text.h"

namespace roofbench {
namespace {

constexpr char kStreams[] = "lib/hardware/stream_kernels_cuda.cu";
constexpr char kRows[] = "lib/kernels/rows_cuda.cu";
constexpr char kGemv[] = "lib/kernels/gemv_cuda.cu";

// One row for each kernel, and one more for each further family that runs it. tests/structure holds the rows against
// the sources.
constexpr UnverifiedKernel kTable[] = {
    {"Spin", "lib/timing/spin_cuda.cu"},
    {"ReadStream", kStreams, "read", "stream"},
    {"CopyStream", kStreams, "copy", "stream"},
    {"UpdateStream", kStreams},
    {"WriteStream", kStreams},
    {"RmsNormRows", kRows, "rms_norm", "native"},
    {"LayerNormRows", kRows, "layer_norm", "native"},
    {"SoftmaxRows", kRows, "softmax", "native"},
    {"GemvRows", kGemv, "gemv", "native"},
    {"GemvRows", kGemv, "gather_gemv", "native"},
};

}  // namespace

std::span<const UnverifiedKernel> UnverifiedKernels() { return kTable; }

absl::Status CheckVerified(const Point& point, std::string_view device_kind) {
  if (device_kind != "cuda" || !point.Has("impl")) return absl::OkStatus();
  for (const UnverifiedKernel& row : kTable) {
    if (row.family != point.family() || row.impl != point.Text("impl")) continue;
    return absl::UnimplementedError(
        absl::StrCat("unverified: no GPU has run the kernel ", View(row.kernel), " yet (--unverified runs it)"));
  }
  return absl::OkStatus();
}

std::string DescribeUnverified() {
  std::string text = "\nunverified: no GPU has run these kernels yet; --unverified runs the cases that need them\n";
  for (const UnverifiedKernel& row : kTable) {
    absl::StrAppend(&text, "  ", View(row.kernel), "  (", View(row.file), ")");
    if (!row.family.empty()) absl::StrAppend(&text, "  ", View(row.family), "/impl:", View(row.impl));
    absl::StrAppend(&text, "\n");
  }
  return std::size(kTable) == 0 ? std::string() : text;
}

}  // namespace roofbench
