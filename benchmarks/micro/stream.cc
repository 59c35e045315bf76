// SPDX-License-Identifier: Apache-2.0
// The streams themselves, which show the bandwidth roof: the meaning of `roof` in every other case.
//
// 64 KiB lies in a private L1 or L2, 1 MiB in L2, 8 MiB in the last level, 256 MiB and more beyond every cache of a
// desktop; compare a GEMV or a norm with the cold points. The machine suite has the curve of one thread over all sizes,
// which shows the levels as they are, that of all threads over those of caches, and how many threads it takes to fill
// the bandwidth of memory.

#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sum.h>

#include "lib/suite/check.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

using hardware::StreamKind;

constexpr char kStoresAxis[] = "stores";
constexpr char kFastest[] = "fastest";

// Of streams from one array into another, or into a number.
struct Stream {
  at::Tensor x, y;
};

// Of streams that have one array.
struct Words {
  at::Tensor y;  // 64 bits each
  int64_t steps = 0;
};

std::string StoresAt(const Point& at) {
  return at.Has(kStoresAxis) && at.Text(kStoresAxis) != kFastest ? at.Text(kStoresAxis) : "";
}

// The roof's own loop: a read leaves the wrapping sum of all 64-bit words in y.
auto RoofLoop(StreamKind kind) {
  return Prepared([kind](auto&, const Point& at, Inputs& in) {
    return [kind, stores = StoresAt(at), threads = static_cast<int>(at.Int(kThreadsAxis)),
            &device = in.device()](auto& o) {
      const at::Tensor* array = &o.y;
      if constexpr (requires { o.x; }) array = &o.x;
      device.RunStream({.kind = kind, .variant = stores, .threads = threads}, static_cast<std::byte*>(o.y.data_ptr()),
                       static_cast<std::byte*>(array->data_ptr()), array->nbytes());
      if constexpr (requires { o.steps; }) ++o.steps;
    };
  });
}

absl::Status Supports(StreamKind kind, const Point& at, const Device& device) {
  // Streams consist of whole cache lines.
  if (at.Int("bytes") % 64 != 0) return absl::UnimplementedError("bytes must be a multiple of 64");
  const std::string stores = StoresAt(at);
  if (at.Text(kImplAxis) != "stream" && (at.Int(kThreadsAxis) > 0 || !stores.empty())) {
    return absl::UnimplementedError("impl:stream alone can choose its threads and stores");
  }
  if (device.gpu() == nullptr && hardware::FindStream(kind, stores) == nullptr) {
    return absl::UnimplementedError("this processor has no stores that bypass the caches");
  }
  return absl::OkStatus();
}

template <typename O>
FamilyOf<O> Streams(StreamKind kind, std::string doc) {
  FamilyOf<O> family(std::string(Name(kind)), std::move(doc));
  family.Size("bytes", "size of one operand").Threads();
  const bool has_stores = kind != StreamKind::kRead;
  if (has_stores) {
    family.Choice(kStoresAxis, {kFastest, "plain", "streaming"},
                  "plain: into the caches; streaming: past them; fastest: what was measured to be, to memory",
                  kFastest);
  }
  // Most operators are a read or a copy.
  if (kind == StreamKind::kRead || kind == StreamKind::kCopy) {
    family.Points(Suite::kQuick, {{"impl", {"stream"}}, {"bytes", {64_Ki, 1_Mi, 8_Mi}}, {"cache", {kWarm}}})
        .Points(Suite::kQuick, {{"impl", {"stream", "eager"}}, {"bytes", {256_Mi}}})
        .Points(Suite::kFull, {{"impl", {"stream", "eager"}}, {"bytes", {1_Gi}}});
  }
  const auto add = [&](Suite suite, const AxisList& bytes, const AxisList& threads, const char* cache,
                       const AxisList& stores) {
    GridAxes grid = {{"impl", {"stream"}}, {"bytes", bytes}, {kThreadsAxis, threads}, {"cache", {cache}}};
    if (has_stores) grid.emplace_back(kStoresAxis, stores);
    family.Points(suite, std::move(grid));
  };
  const bool is_read = kind == StreamKind::kRead;
  if (is_read) {
    add(Suite::kMachineQuick, {16_Ki, 64_Ki, 256_Ki, 1_Mi, 4_Mi, 16_Mi, 64_Mi, 256_Mi, 1_Gi}, {1}, kWarm, {"plain"});
  }
  add(Suite::kMachineQuick, {1_Gi}, {0}, kCold, {kFastest});
  add(Suite::kMachine,
      {16_Ki, 32_Ki, 64_Ki, 128_Ki, 256_Ki, 512_Ki, 1_Mi, 2_Mi, 4_Mi, 8_Mi, 16_Mi, 32_Mi, 64_Mi, 128_Mi, 256_Mi, 512_Mi,
       1_Gi},
      {1}, kWarm, {"plain"});
  add(Suite::kMachine, {64_Ki, 128_Ki, 256_Ki, 512_Ki, 1_Mi, 2_Mi, 4_Mi, 8_Mi, 16_Mi, 32_Mi, 64_Mi, 128_Mi}, {0}, kWarm,
      {"plain"});
  add(is_read ? Suite::kMachineQuick : Suite::kMachine, {256_Mi}, {1, 2, 4, 8, 16, 32, 64, 128, 256}, kWarm,
      {kFastest});
  add(Suite::kMachine, {256_Mi, 512_Mi, 1_Gi}, {0}, kCold, {kFastest, "plain", "streaming"});
  family.Points(Suite::kMachine, {{"impl", {"eager"}}, {"bytes", {256_Mi}}});
  return family.Supports([kind](const Point& at, const Device& device) { return Supports(kind, at, device); });
}

const Registration kCopy = Streams<Stream>(StreamKind::kCopy, "writes one array from another")
                               .Work([](const Point& at) { return workload::CopyStream{at.Number("bytes")}.Cost(); })
                               .Operands([](const Point& at, Inputs& in) {
                                 const int64_t elements = at.Int("bytes") / 4;
                                 return Stream{in.Randn({elements}), in.Empty({elements}, at::kFloat)};
                               })
                               .Reference([](const Stream& o) { return o.x; })
                               .Impl("stream", RoofLoop(StreamKind::kCopy))
                               .Launches({"CopyStream"})
                               .Impl("eager", [](Stream& o) { o.y.copy_(o.x); });

const Registration kRead =
    Streams<Stream>(StreamKind::kRead, "reads one array")
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
        .Impl("stream", RoofLoop(StreamKind::kRead))
        .Launches({"ReadStream"})
        .Impl("eager", [](Stream& o) { o.y = o.x.sum(); });

constexpr auto kOdd = static_cast<int64_t>(hardware::kWritePattern);

// Words that all differ.
Words MakeWords(const Point& at, Inputs& in) {
  Words words{in.Empty({at.Int("bytes") / 8}, at::kLong)};
  at::arange_out(words.y, words.y.numel()).mul_(kOdd);
  return words;
}

Tolerance Exact(const Point&) { return Tolerance{.dtype = workload::Dtype::kInt8}; }

const Registration kUpdate =
    Streams<Words>(StreamKind::kUpdate, "adds one to each 64-bit word of an array, in place")
        .Work([](const Point& at) { return workload::UpdateStream{at.Number("bytes")}.Cost(); })
        .Operands(MakeWords)
        .Reference([](const Words& o) { return at::arange(o.y.numel(), o.y.options()).mul_(kOdd).add_(o.steps); })
        .Within(Exact)
        .Impl("stream", RoofLoop(StreamKind::kUpdate))
        .Launches({"UpdateStream"})
        .Impl("eager", [](Words& o) {
          o.y.add_(1);
          ++o.steps;
        });

const Registration kWrite = Streams<Words>(StreamKind::kWrite, "writes one array")
                                .Work([](const Point& at) { return workload::WriteStream{at.Number("bytes")}.Cost(); })
                                .Operands(MakeWords)
                                .Reference([](const Words& o) { return at::full_like(o.y, kOdd); })
                                .Within(Exact)
                                .Changing([](const Words&) { return std::vector<at::Tensor>(); })
                                .Impl("stream", RoofLoop(StreamKind::kWrite))
                                .Launches({"WriteStream"})
                                .Impl("eager", [](Words& o) { o.y.fill_(kOdd); });

}  // namespace
}  // namespace roofbench
