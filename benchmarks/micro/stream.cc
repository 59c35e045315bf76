// SPDX-License-Identifier: Apache-2.0
// The streams themselves, which show the bandwidth roof: the meaning of `roof` in every other case.
//
// 64 KiB lies in a private L1 or L2, 1 MiB in L2, 8 MiB in the last level, 256 MiB and more beyond every cache of a
// desktop; compare a GEMV or a norm with the cold points.

#include <ATen/ops/sum.h>

#include "lib/suite/check.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

struct Stream {
  at::Tensor x, y;
};

// The roof's own loop: a read leaves the wrapping sum of all 64-bit words in y.
auto RoofLoop(hardware::StreamKind kind) {
  return Prepared([kind](Stream&, const Point&, Inputs& in) {
    return [kind, &device = in.device()](Stream& o) {
      device.RunStream(kind, static_cast<std::byte*>(o.y.data_ptr()), static_cast<std::byte*>(o.x.data_ptr()),
                       o.x.nbytes());
    };
  });
}

FamilyOf<Stream> Streams(std::string name, std::string doc) {
  return FamilyOf<Stream>(std::move(name), std::move(doc))
      .Size("bytes", "size of one operand")
      .Supports([](const Point& at, const Device&) {
        // Streams consist of whole cache lines.
        return at.Int("bytes") % 64 == 0 ? absl::OkStatus()
                                         : absl::UnimplementedError("bytes must be a multiple of 64");
      })
      .Points(Suite::kQuick, {{"impl", {"stream"}}, {"bytes", {64_Ki, 1_Mi, 8_Mi}}, {"cache", {kWarm}}})
      .Points(Suite::kQuick, {{"impl", {"stream", "eager"}}, {"bytes", {256_Mi}}})
      .Points(Suite::kFull, {{"impl", {"stream", "eager"}}, {"bytes", {1_Gi}}});
}

const Registration kCopy = Streams("copy", "writes one array from another")
                               .Work([](const Point& at) { return workload::CopyStream{at.Number("bytes")}.Cost(); })
                               .Operands([](const Point& at, Inputs& in) {
                                 const int64_t elements = at.Int("bytes") / 4;
                                 return Stream{in.Randn({elements}), in.Empty({elements}, at::kFloat)};
                               })
                               .Reference([](const Stream& o) { return o.x; })
                               .Impl("stream", RoofLoop(hardware::StreamKind::kCopy))
                               .Launches({"CopyStream"})
                               .Impl("eager", [](Stream& o) { o.y.copy_(o.x); });

const Registration kRead =
    Streams("read", "reads one array")
        .Work([](const Point& at) { return workload::ReadStream{at.Number("bytes")}.Cost(); })
        .Operands([](const Point& at, Inputs& in) {
          return Stream{in.Randn({at.Int("bytes") / 4}),
                        in.Empty({}, at.Text(kImplAxis) == "stream" ? at::kLong : at::kFloat)};
        })
        .Reference([](const Stream& o) {
          return o.y.scalar_type() == at::kLong ? o.x.view(at::kLong).sum() : ExactRowSums(o.x).squeeze();
        })
        .Within([](const Point& at) {
          if (at.Text(kImplAxis) == "stream") return Tolerance{.dtype = workload::Dtype::kInt8};
          // Positive and negative numbers cancel: the error of the sum is relative to its terms, not to its value.
          return Tolerance{.reduction = at.Number("bytes") / 4 * 100};
        })
        .Impl("stream", RoofLoop(hardware::StreamKind::kRead))
        .Launches({"ReadStream"})
        .Impl("eager", [](Stream& o) { o.y = o.x.sum(); });

}  // namespace
}  // namespace roofbench
