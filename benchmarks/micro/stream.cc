// The streams themselves, so that the bandwidth roof is on show: what `roof` means for every other case.
//
// 64 KiB lies in a private L1 or L2, 1 MiB in L2, 8 MiB in the last level, 256 MiB and more beyond every cache of a
// desktop; the cold points are the ones to hold a GEMV or a norm against.

#include <ATen/ops/sum.h>

#include <memory>

#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/workload/stream.h"

namespace roofbench {
namespace {

using hardware::StreamKind;

std::byte* Bytes(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

const GridAxes kCached = {{"impl", {"stream"}}, {"bytes", {"65536", "1048576", "8388608"}}, {"cache", {"warm"}}};
const GridAxes kMemory = {{"impl", {"stream", "eager"}}, {"bytes", {"268435456"}}};
const GridAxes kLarge = {{"impl", {"stream", "eager"}}, {"bytes", {"1073741824"}}};

absl::StatusOr<Case> BuildCopy(const Point& at, Inputs& in) {
  const at::Tensor from = in.Randn({at.Int("bytes") / 4});
  const at::Tensor to = in.Empty({at.Int("bytes") / 4}, workload::Dtype::kFp32);
  Case built{.result = [=] { return std::vector{to}; }, .reference = [=] { return std::vector{from}; }};
  if (at.Text("impl") == "eager") {
    built.step = [=] { to.copy_(from); };
  } else {
    Device* const device = &in.device();
    built.step = [=] { device->RunStream(StreamKind::kCopy, Bytes(to), Bytes(from), from.nbytes()); };
  }
  return built;
}

// What a read stream answers: the wrapping sum of all 64-bit words.
at::Tensor WordSum(const at::Tensor& tensor) { return tensor.view(at::kLong).sum(); }

absl::StatusOr<Case> BuildRead(const Point& at, Inputs& in) {
  const at::Tensor from = in.Randn({at.Int("bytes") / 4});
  if (at.Text("impl") == "eager") {
    const auto sum = std::make_shared<at::Tensor>();
    return Case{.step = [=] { *sum = from.sum(); },
                .result = [=] { return std::vector{*sum}; },
                .reference = [=] { return std::vector{from.to(at::kDouble).sum()}; },
                // Normal numbers cancel: the error of the sum is that of its terms, not of its value.
                .tolerance = {.reduction = static_cast<double>(from.numel()) * 100}};
  }
  const at::Tensor sum = in.Empty({}, at::kLong);
  Device* const device = &in.device();
  return Case{.step = [=] { device->RunStream(StreamKind::kRead, Bytes(sum), Bytes(from), from.nbytes()); },
              .result = [=] { return std::vector{sum}; },
              .reference = [=] { return std::vector{WordSum(from)}; },
              .tolerance = {.dtype = workload::Dtype::kInt8}};
}

Family Stream(std::string name, std::string doc) {
  return Family(std::move(name), std::move(doc))
      .Axis({.name = "impl", .choices = {"stream", "eager"}, .doc = "stream: the roof's own loop; eager: LibTorch"})
      .Axis({.name = "bytes", .doc = "size of one operand"})
      .Grid(Suite::kQuick, kCached)
      .Grid(Suite::kQuick, kMemory)
      .Grid(Suite::kFull, kLarge)
      .Supports([](const Point& at, const Device&) {
        // Streams go in whole cache lines.
        return at.Int("bytes") % 64 == 0 ? absl::OkStatus()
                                         : absl::UnimplementedError("bytes must be a multiple of 64");
      });
}

const Registration kCopy(Stream("copy", "writes one array from another")
                             .Cost([](const Point& at) { return workload::CopyStream{at.Number("bytes")}.Cost(); })
                             .Build(BuildCopy));

const Registration kRead(Stream("read", "reads one array")
                             .Cost([](const Point& at) { return workload::ReadStream{at.Number("bytes")}.Cost(); })
                             .Build(BuildRead));

}  // namespace
}  // namespace roofbench
