// SPDX-License-Identifier: Apache-2.0
// y[i] = W[e(i)] · x[i]: the experts of a mixture for a prompt, whose rows lie expert by expert. One launch for all
// experts (eager) against a product for each (naive), and against our products of a prompt in bf16 (native), which pack
// the rows of an expert in each step and read the weights as they are stored.
//
// Shapes: gate of Mixtral 8x7B (8 experts of 14336 x 4096), gate and up of Qwen3-30B-A3B (128 experts of 1536 x 2048).
// Routers do not spread tokens evenly: the largest expert decides how long processors that share no expert take, and
// small ones fill no tile.

#include <ATen/TensorOperators.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/aten/elements.h"
#include "lib/base/files.h"
#include "lib/base/text.h"
#include "lib/cli/flags.h"
#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/suite/check.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/products.h"

namespace roofbench {
namespace {

using workload::Dtype;

constexpr char kJagged[] = "jagged";
constexpr char kGiven[] = "given";

std::string routing_file;

absl::StatusOr<std::vector<double>> ReadRouting() {
  constexpr uint64_t kMostBytes = 1 << 20;
  const absl::StatusOr<std::string> text = ReadFile(routing_file, kMostBytes);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat("--routing: ", text.status().message()));
  const absl::StatusOr<std::vector<int64_t>> numbers = ParseNumbers(*text, "a number of rows");
  if (!numbers.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--routing=", routing_file, ": ", numbers.status().message(), ", one per expert"));
  }
  std::vector<double> rows(numbers->begin(), numbers->end());
  if (std::accumulate(rows.begin(), rows.end(), 0.0) > 0) return rows;
  return absl::InvalidArgumentError(
      absl::StrCat("--routing=", routing_file, ": no expert has a row; expected 1,2,3, one per expert"));
}

// Rows per expert as the file has them; Unimplemented without the flag.
const absl::StatusOr<std::vector<double>>& GivenRouting() {
  static const auto* routing = new absl::StatusOr<std::vector<double>>(
      routing_file.empty() ? absl::UnimplementedError("needs --routing=FILE: rows per expert, as 1,2,3")
                           : ReadRouting());
  return *routing;
}

const FlagRegistration kRoutingFlag(
    {.flags = {{"routing", "FILE", Text(routing_file),
                "routing:given of grouped_mm: rows per expert, as 1,2,3 or one a line; scaled to the case's rows"}},
     .check = [] { return routing_file.empty() ? absl::OkStatus() : GivenRouting().status(); },
     .reads = [](const Point& at) { return at.family() == "grouped_mm" && at.Text("routing") == kGiven; },
     .way_out = "--axis=grouped_mm.routing=given selects cases that read it"});

struct Grouped {
  at::Tensor x;              // [rows, k]
  at::Tensor weight;         // [experts, n, k]
  at::Tensor ends;           // int32 [experts]: the first row after each expert's
  at::Tensor y;              // [rows, n]
  at::Tensor rows;           // of y that are compared
  std::vector<int64_t> end;  // `ends`, on the host
};

bool HasGivenRouting(const Point& at) {
  return at.Text("routing") == kGiven && GivenRouting().ok() && std::ssize(*GivenRouting()) == at.Int("experts");
}

// The share of each expert; jagged: 1 / (e + 1), as Zipf's law has it. That of a case without its file is not used.
std::vector<double> SharesAt(const Point& at) {
  if (HasGivenRouting(at)) return *GivenRouting();
  std::vector<double> shares(static_cast<std::size_t>(at.Int("experts")), 1);
  if (at.Text("routing") != kJagged) return shares;
  for (std::size_t e = 0; e < shares.size(); ++e) shares[e] /= static_cast<double>(e + 1);
  return shares;
}

std::vector<int64_t> EndsAt(const Point& at) {
  std::vector<double> sums = SharesAt(at);
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  std::vector<int64_t> ends;
  for (const double sum : sums) ends.push_back(std::llround(at.Number("rows") * sum / sums.back()));
  return ends;
}

// Calls use(expert, first row, rows) for each expert that has any.
template <typename Use>
void EachLoad(const std::vector<int64_t>& ends, Use use) {
  int64_t first = 0;
  for (std::size_t e = 0; e < ends.size(); ++e) {
    if (ends[e] > first) use(static_cast<int64_t>(e), first, ends[e] - first);
    first = ends[e];
  }
}

Grouped MakeGrouped(const Point& at, Inputs& in) {
  const int64_t rows = at.Int("rows");
  std::vector<int64_t> end = EndsAt(at);
  return {.x = in.Randn({rows, at.Int("k")}, at.Dtype()),
          .weight = in.Randn({at.Int("experts"), at.Int("n"), at.Int("k")}, at.Dtype()),
          .ends = in.Keep([&](at::Generator&) { return at::tensor(end, at::kInt); }),
          .y = in.Empty({rows, at.Int("n")}, at.Dtype()),
          .rows = in.SampleRows(rows),
          .end = end};
}

at::Tensor ReferenceRows(const Grouped& o) {
  const at::Tensor rows = o.rows.to(at::kCPU);
  std::vector<at::Tensor> blocks;
  EachLoad(o.end, [&](int64_t expert, int64_t first, int64_t count) {
    const at::Tensor own = rows.masked_select(rows.ge(first).logical_and_(rows.lt(first + count)));
    if (own.numel() == 0) return;
    const at::Tensor x = o.x.index_select(0, own.to(o.x.device())).to(at::kDouble);
    blocks.push_back(at::mm(x, o.weight[expert].to(at::kDouble).t()));
  });
  return at::cat(blocks);
}

// x · (Wᵀ · 1), expert by expert.
at::Tensor RowSums(const Grouped& o) {
  std::vector<at::Tensor> sums;
  EachLoad(o.end, [&](int64_t expert, int64_t first, int64_t count) {
    sums.push_back(at::mv(o.x.narrow(0, first, count).to(at::kDouble), ExactRowSums(o.weight[expert].t())));
  });
  return at::cat(sums);
}

void OneByOne(Grouped& o) {
  EachLoad(o.end, [&](int64_t expert, int64_t first, int64_t count) {
    at::Tensor y = o.y.narrow(0, first, count);
    at::mm_out(y, o.x.narrow(0, first, count), o.weight[expert].t());
  });
}

// The product of an expert by tiles, or of fewer rows than a tile is worth one after the other.
std::function<void()> ByTiles(Grouped& o, const Point&, Inputs& in) {
  using kernels::Bf16;
  const kernels::TileLinearKernels& tiles = *kernels::TileLinearKernelsHere();
  const int64_t n = o.weight.size(1);
  const int64_t k = o.weight.size(2);
  int64_t most = 0;
  EachLoad(o.end, [&](int64_t, int64_t, int64_t count) { most = std::max(most, count); });
  const int64_t steps = kernels::TileSteps(k * o.x.element_size());
  at::Tensor packed = at::empty({kernels::PanelBytes(most, steps)}, at::kByte);
  return [&o, &tiles, n, k, packed, threads = in.device().threads()] {
    const kernels::ThreadPool pool(threads);
    auto* const panels = static_cast<std::byte*>(packed.mutable_data_ptr());
    EachLoad(o.end, [&](int64_t expert, int64_t first, int64_t count) {
      const Bf16* const x = Elements<Bf16>(o.x) + first * k;
      const Bf16* const w = Elements<Bf16>(o.weight) + expert * n * k;
      Bf16* const y = Elements<Bf16>(o.y) + first * n;
      if (count < tiles.least_rows) {
        return kernels::Run(kernels::Gemv<kernels::Bf16Weight, Bf16, Bf16>{{w, n, k}, x, y, count}, pool);
      }
      tiles.pack(x, count, k, panels, pool);
      tiles.run({.x = panels, .w = w, .y = y, .m = count, .n = n, .k = k}, pool);
    });
  };
}

absl::Status TilesSupport(const Point&, const Device&) {
  if (kernels::TileLinearKernelsHere() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      "impl:native multiplies with tiles (Intel AMX) or AVX-512's dot products of bf16, which this processor or its "
      "system lacks; impl:eager runs everywhere");
}

workload::GroupedGemm WorkAt(const Point& at) {
  double chosen = 0;
  EachLoad(EndsAt(at), [&](int64_t, int64_t, int64_t) { ++chosen; });
  return {.expert = {at.Number("rows"), at.Number("n"), at.Number("k"), at.Dtype()},
          .chosen = chosen,
          .experts = at.Number("experts")};
}

void Describe(const Point& at, const std::shared_ptr<Grouped>& o, Case& built) {
  int64_t largest = 0;
  EachLoad(o->end, [&](int64_t, int64_t, int64_t count) { largest = std::max(largest, count); });
  built.AddFigure("max_over_mean_load", static_cast<double>(largest) * at.Number("experts") / at.Number("rows"));
}

absl::Status EagerSupports(const Point& at, const Device& device) {
  constexpr int64_t kAligned = 8;  // 16 bytes
  if (device.gpu() == nullptr || (at.Int("n") % kAligned == 0 && at.Int("k") % kAligned == 0)) return absl::OkStatus();
  return absl::UnimplementedError("LibTorch's _grouped_mm on a GPU takes n and k in multiples of 8");
}

absl::Status SupportsRouting(const Point& at, const Device&) {
  if (at.Text("routing") != kGiven || HasGivenRouting(at)) return absl::OkStatus();
  if (!GivenRouting().ok()) return GivenRouting().status();
  return absl::UnimplementedError(absl::StrCat("--routing=", routing_file, " has rows for ", GivenRouting()->size(),
                                               " experts: --axis=grouped_mm.experts=", GivenRouting()->size()));
}

GridAxes Grid(const AxisList& experts, const AxisList& rows, const AxisList& n, const AxisList& k) {
  return {{"impl", {"eager", "naive", "native"}},
          {"dtype", {"bf16"}},
          {"routing", {"balanced", kJagged}},
          {"experts", experts},
          {"rows", rows},
          {"n", n},
          {"k", k}};
}

const Registration kGroupedMm =
    FamilyOf<Grouped>("grouped_mm", "y[rows,n] = x[rows,k] · W[expert of the row][n,k]ᵀ, the rows in order of experts")
        .Dtypes({"bf16"})
        .Choice("routing", {"balanced", kJagged, kGiven},
                "rows of an expert: all alike, a share of 1, 1/2, 1/3, …, or as in the file of --routing", "balanced")
        .Size("experts", "weights")
        .Size("rows", "of x: tokens times the experts of each")
        .Size("n", "rows of a weight: outputs")
        .Size("k", "columns of a weight")
        .Work(WorkAt)
        .Supports(SupportsRouting)
        .Operands(MakeGrouped)
        .Reference(ReferenceRows)
        .RowSums(RowSums)
        .Within([](const Point& at) { return Tolerance{.dtype = at.Dtype(), .reduction = at.Number("k")}; })
        .Details(Describe)
        .Impl("eager", [](Grouped& o) { o.y = at::_grouped_mm(o.x, o.weight.transpose(1, 2), o.ends); })
        .When(EagerSupports)
        .Impl("naive", OneByOne)
        .Impl("native", OnCpu(ByTiles))
        .When(TilesSupport)
        .Points(Suite::kQuick, Grid({8}, {512}, {1024}, {1024}))
        .Points(Suite::kStandard, Grid({8}, {256, 4096}, {14336}, {4096}))
        .Points(Suite::kStandard, Grid({128}, {1024, 16384}, {1536}, {2048}))
        .Points(Suite::kFull, Grid({8}, {16384}, {14336}, {4096}))
        .Growth("rows", 1);

}  // namespace
}  // namespace roofbench
