// SPDX-License-Identifier: Apache-2.0
// The collective operations of LibTorch's process groups, one row each: what data-parallel, sharded and tensor-parallel
// steps exchange.
//
// Every rank's array is the same array of small integers, times the rank's factor, so that sums are exact in any order:
// a rank that is missing or counts twice, and parts in a wrong order, change most elements. Sums in place grow from
// step to step; the result that is checked is that of one more step of all ranks, from fresh operands.

#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/ranks/device_group.h"
#include "lib/ranks/group.h"
#include "lib/suite/family_of.h"
#include "lib/workload/collectives.h"

namespace roofbench {
namespace {

using workload::CollectiveKind;

constexpr char kInPlaceAxis[] = "in_place";

constexpr int64_t kPeriod = 65537;  // of the integers: a prime, so that parts of equal length begin differently

// The factor of a rank's array, and of the sum of all.
int64_t Factor(int64_t rank) { return rank + 1; }
int64_t SumOfFactors(int64_t ranks) { return ranks * (ranks + 1) / 2; }

// One rank's view of the operation.
struct Array {
  ranks::Group* group = nullptr;
  int64_t elements = 0;       // of the whole array
  at::Tensor integers = {};   // the whole array repeats them
  at::Tensor x = {}, y = {};  // read and written: the same tensor if the operation is always in place

  int rank() const { return group->rank(); }
  int ranks() const { return group->size(); }
  int RankAfter(int distance) const { return (rank() + ranks() + distance) % ranks(); }
  int64_t part() const { return elements / ranks(); }
  at::Tensor PartOf(const at::Tensor& whole) const { return whole.narrow(0, rank() * part(), part()); }

  // Elements of the whole array, times `factor`: all, or the part of a rank.
  at::Tensor Values(int64_t factor, int64_t begin, int64_t count) const {
    const int64_t period = integers.numel();
    return integers.repeat({count / period + 2}).narrow(0, begin % period, count).mul_(factor);
  }
  at::Tensor Whole(int64_t factor) const { return Values(factor, 0, elements); }
  at::Tensor Part(int64_t factor, int64_t of) const { return Values(factor, of * part(), part()); }
};

enum class Size { kWhole, kPart };
enum class InPlace { kAlways, kNever, kChoice };

struct CollectiveSpec {
  CollectiveKind kind;
  const char* doc;
  Size x, y;
  InPlace in_place;
  void (*run)(Array&);
  at::Tensor (*expected)(const Array&);
};

constexpr CollectiveSpec kCollectives[] = {
    {CollectiveKind::kAllReduce, "the sum of all ranks' arrays, to every rank, in place", Size::kWhole, Size::kWhole,
     InPlace::kAlways, [](Array& a) { a.group->AllReduce(a.x); },
     [](const Array& a) { return a.Whole(SumOfFactors(a.ranks())); }},
    {CollectiveKind::kAllGather, "the parts of all ranks, to every rank", Size::kPart, Size::kWhole, InPlace::kChoice,
     [](Array& a) { a.group->AllGather(a.y, a.x); },
     [](const Array& a) {
       std::vector<at::Tensor> parts;
       for (int rank = 0; rank < a.ranks(); ++rank) parts.push_back(a.Part(Factor(rank), rank));
       return at::cat(parts);
     }},
    {CollectiveKind::kReduceScatter, "the sum of all ranks' arrays, a part of it to each rank", Size::kWhole,
     Size::kPart, InPlace::kChoice, [](Array& a) { a.group->ReduceScatter(a.y, a.x); },
     [](const Array& a) { return a.Part(SumOfFactors(a.ranks()), a.rank()); }},
    {CollectiveKind::kBroadcast, "the array of rank 0, to every rank, in place", Size::kWhole, Size::kWhole,
     InPlace::kAlways, [](Array& a) { a.group->Broadcast(a.x, 0); }, [](const Array& a) { return a.Whole(Factor(0)); }},
    {CollectiveKind::kAllToAll, "a part of each rank's array, to each rank", Size::kWhole, Size::kWhole,
     InPlace::kNever, [](Array& a) { a.group->AllToAll(a.y, a.x); },
     [](const Array& a) {
       std::vector<at::Tensor> parts;
       for (int rank = 0; rank < a.ranks(); ++rank) parts.push_back(a.Part(Factor(rank), a.rank()));
       return at::cat(parts);
     }},
    {CollectiveKind::kSendRecv, "each rank's array, to the next rank in a ring", Size::kWhole, Size::kWhole,
     InPlace::kNever, [](Array& a) { a.group->SendReceive(a.x, a.RankAfter(1), a.y, a.RankAfter(-1)); },
     [](const Array& a) { return a.Whole(Factor(a.RankAfter(-1))); }},
};

bool IsInPlace(const CollectiveSpec& row, const Point& at) {
  return row.in_place == InPlace::kAlways || (at.Has(kInPlaceAxis) && at.Text(kInPlaceAxis) == "yes");
}

bool HasParts(const CollectiveSpec& row) {
  return row.x == Size::kPart || row.y == Size::kPart || row.kind == CollectiveKind::kAllToAll;
}

int64_t ElementBytes(const Point& at) { return static_cast<int64_t>(workload::ElementBytes(at.Dtype())); }

// The integers from which on a type has not all of them.
int64_t ExactLimit(workload::Dtype dtype) {
  const double epsilon = workload::Epsilon(dtype);
  return epsilon == 0 ? 127 : static_cast<int64_t>(2 / epsilon);
}

void Restore(const CollectiveSpec& row, Array& a) {
  a.y.zero_();
  a.x.copy_(row.x == Size::kWhole ? a.Whole(Factor(a.rank())) : a.Part(Factor(a.rank()), a.rank()));
}

absl::StatusOr<Array> MakeArray(const CollectiveSpec& row, const Point& at, Inputs& in) {
  constexpr int64_t kMost = 100;
  const int64_t ranks = at.Ranks();
  if (in.group().size() != ranks) {
    return absl::FailedPreconditionError(
        absl::StrCat("it needs ", ranks, " ranks, and this run has ", in.group().size()));
  }
  const workload::Dtype dtype = at.Dtype();
  Array a{.group = &in.group(),
          .elements = at.Int("bytes") / ElementBytes(at),
          .integers = in.Keep([&](at::Generator& generator) {
            const int64_t most = std::clamp(ExactLimit(dtype) / SumOfFactors(ranks), int64_t{1}, kMost);
            return at::randint(-most, most + 1, {kPeriod}, generator, at::TensorOptions(StorageType(dtype)));
          })};
  const auto operand = [&](Size size) { return in.Empty({size == Size::kWhole ? a.elements : a.part()}, dtype); };
  if (IsInPlace(row, at)) {
    const at::Tensor whole = operand(Size::kWhole);
    a.x = row.x == Size::kWhole ? whole : a.PartOf(whole);
    a.y = row.y == Size::kWhole ? whole : a.PartOf(whole);
  } else {
    a.x = operand(row.x);
    a.y = operand(row.y);
  }
  Restore(row, a);
  return a;
}

Family Declared(const CollectiveSpec& row) {
  FamilyOf<Array> family(std::string(workload::Name(row.kind)), row.doc);
  family.Size(kRanksAxis)
      .Dtypes({"fp32", "bf16", "fp16", "int8"})
      .Size("bytes", "of the whole array; where it is divided, each rank has an equal part");
  if (row.in_place == InPlace::kChoice) {
    family.Choice(kInPlaceAxis, {"no", "yes"}, "a rank's part lies in its whole array", "no");
  }
  family.DefaultCache(kWarm)
      .Work([&row](const Point& at) {
        const workload::Collective collective{.kind = row.kind,
                                              .ranks = at.Number(kRanksAxis),
                                              .array_bytes = at.Number("bytes"),
                                              .in_place = IsInPlace(row, at)};
        workload::Cost cost = at.Text(kImplAxis) == "nccl" ? collective.NcclCost() : collective.GlooCost();
        cost.resident_bytes += static_cast<double>(kPeriod * ElementBytes(at));
        return cost;
      })
      .Supports([&row](const Point& at, const Device&) {
        const int64_t unit = ElementBytes(at) * (HasParts(row) ? at.Ranks() : 1);
        if (at.Int("bytes") % unit == 0) return absl::OkStatus();
        return absl::UnimplementedError(absl::StrCat("bytes must be a multiple of ", unit, ", for ",
                                                     HasParts(row) ? "equal parts" : "whole elements"));
      })
      .Operands([&row](const Point& at, Inputs& in) { return MakeArray(row, at, in); })
      .Result([&row](Array& a) {
        Restore(row, a);
        row.run(a);
        return a.y;
      })
      // The result is that of another step on the first values.
      .Changing([](const Array&) { return std::vector<at::Tensor>(); })
      .Reference([&row](const Array& a) { return row.expected(a); })
      .Within([](const Point& at) {
        if (SumOfFactors(at.Ranks()) <= ExactLimit(at.Dtype())) return Tolerance{.dtype = workload::Dtype::kInt8};
        return Tolerance{.dtype = at.Dtype(), .reduction = at.Number(kRanksAxis), .roundings = at.Number(kRanksAxis)};
      })
      .Impl("gloo", OnCpu([&row](Array&, const Point&, Inputs&) { return row.run; }))
      .Limits("Gloo is LibTorch's backend for processors")
      .Impl("nccl", OnGpu({ranks::kNccl}, [&row](Array&, const Point&, Inputs&) { return row.run; }))
      .Limits("NCCL is LibTorch's backend for GPUs: one for each rank");
  const auto add = [&family](Suite suite, const char* impl, const AxisList& ranks, const AxisList& dtypes,
                             const AxisList& bytes) {
    family.Points(suite, {{"impl", {impl}}, {"ranks", ranks}, {"dtype", dtypes}, {"bytes", bytes}});
  };
  add(Suite::kQuick, "gloo", {2}, {"fp32"}, {1_Mi});
  add(Suite::kStandard, "gloo", {2, 4}, {"fp32"}, {1_Ki, 32_Ki, 1_Mi, 32_Mi});
  add(Suite::kStandard, "gloo", {2, 4}, {"bf16", "int8"}, {1_Mi});
  add(Suite::kStandard, "nccl", {2}, {"fp32"}, {1_Ki, 1_Mi, 1_Gi});
  const AxisList all_bytes = {1_Ki, 4_Ki, 16_Ki, 64_Ki, 256_Ki, 1_Mi, 4_Mi, 16_Mi, 64_Mi, 256_Mi, 1_Gi};
  add(Suite::kFull, "gloo", {2, 4}, {"fp32"}, all_bytes);
  add(Suite::kFull, "nccl", {2, 4, 8}, {"fp32", "bf16"}, all_bytes);
  if (row.kind == CollectiveKind::kSendRecv || row.kind == CollectiveKind::kAllReduce) {
    // From a message's latency to the bandwidth of its bytes.
    if (row.kind == CollectiveKind::kSendRecv) {
      add(Suite::kMachineQuick, "gloo", {2}, {"fp32"}, {8, 4_Ki, 256_Ki, 16_Mi});
    }
    add(Suite::kMachine, "gloo", {2}, {"fp32"}, {8, 64, 512, 4_Ki, 32_Ki, 256_Ki, 2_Mi, 16_Mi, 64_Mi});
  }
  if (row.in_place == InPlace::kChoice) {
    family.Points(Suite::kFull, {{"impl", {"gloo"}},
                                 {"ranks", {2, 4}},
                                 {"dtype", {"fp32"}},
                                 {"bytes", {1_Mi, 64_Mi}},
                                 {kInPlaceAxis, {"yes"}}});
  }
  return family.Finish();
}

const std::vector<Registration> kFamilies = [] {
  std::vector<Registration> families;
  for (const CollectiveSpec& row : kCollectives) families.emplace_back(Declared(row));
  return families;
}();

}  // namespace
}  // namespace roofbench
