// SPDX-License-Identifier: Apache-2.0
// Attention of many queries at once, as training and prompts have it: arithmetic grows with the square of the length,
// and memory, too, where the scores are written down.
//
// 12 heads of 64 (GPT-2 small) and 32 over 8 of 128 (Llama-3-8B) at 1024 to 8192 tokens; the published sweep of the
// naive one (batch 8, one head, no mask) and that of FlashAttention (batch 1, causal, up to 65536 tokens).

#include <ATen/Context.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/attention.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/attention.h"

namespace roofbench {
namespace {

constexpr char kCausal[] = "causal";
constexpr char kAuto[] = "auto";
enum Phase { kScores, kSoftmax, kWeightedSum };

workload::Attention ShapeAt(const Point& at) {
  return {.batch = at.Number("batch"),
          .heads = at.Number("heads"),
          .kv_heads = at.Number("kv_heads"),
          .queries = at.Number("queries"),
          .keys = at.Number("keys"),
          .head_dim = at.Number("d"),
          .causal = at.Text("mask") == kCausal,
          .dtype = at.Dtype()};
}

struct Attention {
  at::Tensor q;        // [batch · kv_heads, group, queries, d]
  at::Tensor k, v, y;  // [batch · kv_heads, keys, d]; y as q
  at::Tensor rows;     // of y that are compared
  bool causal;
  at::Tensor hidden = {};    // [queries, keys], of the naive one with a mask
  std::string backend = {};  // of sdpa

  double scale() const { return 1 / std::sqrt(static_cast<double>(q.size(3))); }
  // Keys that the first query sees beside the first one; below zero where it sees none.
  int64_t first_seen() const { return k.size(1) - q.size(2); }
};

at::Tensor Hidden(int64_t queries, int64_t keys, const at::TensorOptions& options) {
  return at::ones({queries, keys}, options.dtype(at::kBool)).triu(keys - queries + 1);
}

Attention MakeAttention(const Point& at, Inputs& in) {
  const int64_t heads = at.Int("batch") * at.Int("kv_heads");
  const int64_t queries = at.Int("queries");
  const std::vector<int64_t> of_queries = {heads, at.Int("heads") / at.Int("kv_heads"), queries, at.Int("d")};
  const std::vector<int64_t> of_keys = {heads, at.Int("keys"), at.Int("d")};
  Attention made{.q = in.Randn(of_queries, at.Dtype()),
                 .k = in.Randn(of_keys, at.Dtype()),
                 .v = in.Randn(of_keys, at.Dtype()),
                 .y = in.Empty(of_queries, at.Dtype()),
                 .rows = in.SampleRows(heads * of_queries[1] * queries),
                 .causal = at.Text("mask") == kCausal,
                 .backend = at.Text("backend")};
  if (made.causal && at.Text(kImplAxis) == "naive") {
    made.hidden = in.Keep(Hidden(queries, at.Int("keys"), made.q.options()));
  }
  return made;
}

// The probabilities of some queries of a head, in double precision.
at::Tensor Probabilities(const Attention& o, int64_t head, int64_t member, int64_t first, int64_t count) {
  const at::Tensor q = o.q[head][member].narrow(0, first, count).to(at::kDouble);
  at::Tensor scores = at::matmul(q, o.k[head].to(at::kDouble).t()).mul_(o.scale());
  if (o.causal) {
    scores.masked_fill_(at::ones_like(scores, at::kBool).triu(o.first_seen() + first + 1),
                        -std::numeric_limits<double>::infinity());
  }
  return at::softmax(scores, -1);
}

at::Tensor ReferenceRows(const Attention& o) {
  const int64_t queries = o.q.size(2);
  const at::Tensor rows = o.rows.cpu();
  std::vector<at::Tensor> results;
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const int64_t row = rows.const_data_ptr<int64_t>()[i];
    const int64_t head = row / queries / o.q.size(1);
    const at::Tensor weights = Probabilities(o, head, row / queries % o.q.size(1), row % queries, 1);
    results.push_back(at::matmul(weights, o.v[head].to(at::kDouble)));
  }
  return at::cat(results);
}

// P · (V · 1), a block of queries at a time; not computed where that would take longer than a minute.
at::Tensor RowSums(const Attention& o) {
  constexpr int64_t kBlock = 512;
  constexpr int64_t kMost = 1_Gi;
  if (o.q.numel() / o.q.size(3) > kMost / o.k.size(1)) return {};
  std::vector<at::Tensor> sums;
  for (int64_t head = 0; head < o.q.size(0); ++head) {
    const at::Tensor of_values = o.v[head].sum(1, false, at::kDouble);
    for (int64_t member = 0; member < o.q.size(1); ++member) {
      for (int64_t first = 0; first < o.q.size(2); first += kBlock) {
        const int64_t count = std::min(kBlock, o.q.size(2) - first);
        sums.push_back(at::matmul(Probabilities(o, head, member, first, count), of_values));
      }
    }
  }
  return at::cat(sums);
}

void Naive(Attention& o, timing::PhaseMarker& marker) {
  const int64_t queries = o.q.size(1) * o.q.size(2);  // those of a group share their keys
  const std::vector<int64_t> square = {o.q.size(0), o.q.size(1), o.q.size(2), o.k.size(1)};
  at::Tensor scores = at::bmm(o.q.view({o.q.size(0), queries, o.q.size(3)}), o.k.transpose(1, 2)).mul_(o.scale());
  if (o.causal) scores.view(square).masked_fill_(o.hidden, -std::numeric_limits<float>::infinity());
  marker.End(kScores);
  const at::Tensor probabilities = at::softmax(scores, -1);
  marker.End(kSoftmax);
  o.y = at::bmm(probabilities, o.v).view(o.q.sizes());
  marker.End(kWeightedSum);
}

// A backend of scaled_dot_product_attention, and how LibTorch allows it.
struct Backend {
  const char* name;
  bool on_cpu;
  bool takes_fp32;  // on GPUs
  bool (at::Context::*is_allowed)() const;
  void (at::Context::*allow)(bool);
};
constexpr std::array<Backend, 4> kBackends = {
    {{"math", true, true, &at::Context::userEnabledMathSDP, &at::Context::setSDPUseMath},
     {"flash", true, false, &at::Context::userEnabledFlashSDP, &at::Context::setSDPUseFlash},
     {"efficient", false, true, &at::Context::userEnabledMemEfficientSDP, &at::Context::setSDPUseMemEfficient},
     {"cudnn", false, false, &at::Context::userEnabledCuDNNSDP, &at::Context::setSDPUseCuDNN}}};

// While it lives, LibTorch may take this backend alone (auto: whichever it may take anyway).
class AllowedBackend {
 public:
  explicit AllowedBackend(const std::string& name) {
    for (std::size_t i = 0; i < kBackends.size(); ++i) {
      before_[i] = (at::globalContext().*kBackends[i].is_allowed)();
      if (name != kAuto) (at::globalContext().*kBackends[i].allow)(name == kBackends[i].name);
    }
  }
  AllowedBackend(const AllowedBackend&) = delete;
  AllowedBackend& operator=(const AllowedBackend&) = delete;
  ~AllowedBackend() {
    for (std::size_t i = 0; i < kBackends.size(); ++i) (at::globalContext().*kBackends[i].allow)(before_[i]);
  }

 private:
  std::array<bool, kBackends.size()> before_{};
};

// The heads of a group see the same keys without a copy of them for each, which enable_gqa would make.
void Sdpa(Attention& o) {
  const AllowedBackend allowed(o.backend);
  const auto shared = [&](const at::Tensor& x) { return x.unsqueeze(1).expand({-1, o.q.size(1), -1, -1}); };
  o.y = at::scaled_dot_product_attention(o.q, shared(o.k), shared(o.v), std::nullopt, 0.0, o.causal);
}

absl::Status SdpaSupports(const Point& at, const Device& device) {
  if (at.Text("mask") == kCausal && at.Int("queries") != at.Int("keys")) {
    return absl::UnimplementedError(
        "LibTorch's causal mask begins with the first key: queries must be as many as keys");
  }
  for (const Backend& backend : kBackends) {
    if (at.Text("backend") != backend.name) continue;
    if (device.gpu() == nullptr && !backend.on_cpu) {
      return absl::UnimplementedError(absl::StrCat("LibTorch has backend:", backend.name, " on GPUs alone"));
    }
    if (device.gpu() != nullptr && !backend.takes_fp32 && at.Dtype() == workload::Dtype::kFp32) {
      return absl::UnimplementedError(
          absl::StrCat("LibTorch's backend:", backend.name, " is for 16-bit types on GPUs"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
kernels::HeadVectors<T> Heads(const at::Tensor& x) {
  return {Elements<std::remove_const_t<T>>(x), 0, x.stride(-3), x.stride(-2)};
}

template <typename T>
kernels::Attention<T> Kernel(Attention& o) {
  return {.q = Heads<const T>(o.q.flatten(0, 1)),
          .k = Heads<const T>(o.k),
          .v = Heads<const T>(o.v),
          .y = Heads<T>(o.y.flatten(0, 1)),
          .heads = o.k.size(0),
          .group = o.q.size(1),
          .queries = o.q.size(2),
          .keys = o.k.size(1),
          .head_dim = o.q.size(3),
          .causal = o.causal};
}

auto PrepareNative(Attention& o, const Point& at, Inputs& in) {
  return WithDtype(at.Dtype(), [&]<typename T>(T) -> CaseStep {
    kernels::Attention<T> work = Kernel<T>(o);
    const at::Tensor scratch = in.Empty({ScratchFloats(work)}, at::kFloat);
    work.scratch = Elements<float>(scratch);
    return [run = KernelStep(work, in.device()), scratch](timing::PhaseMarker& marker) { run(marker); };
  });
}

absl::Status Supports(const Point& at, const Device&) {
  if (at.Int("heads") % at.Int("kv_heads") != 0) {
    return absl::InvalidArgumentError("heads must be a multiple of kv_heads, as each of these serves as many of those");
  }
  if (at.Text("mask") == kCausal && at.Int("queries") > at.Int("keys")) {
    return absl::InvalidArgumentError("with mask:causal the first queries would see no key; take no more than keys");
  }
  if (at.Text("backend") != kAuto && at.Text(kImplAxis) != "sdpa") {
    return absl::InvalidArgumentError("impl:sdpa alone has backends");
  }
  return absl::OkStatus();
}

// Sizes that belong together.
GridAxes Grid(const AxisList& impls, const AxisList& dtypes, GridAxes sizes) {
  sizes.insert(sizes.end(), {{"impl", impls}, {"dtype", dtypes}});
  return sizes;
}
GridAxes Gpt2(const AxisList& keys) { return {{"heads", {12}}, {"d", {64}}, {"keys", keys}}; }
GridAxes Llama3(const AxisList& keys) { return {{"heads", {32}}, {"kv_heads", {8}}, {"d", {128}}, {"keys", keys}}; }
GridAxes OneHead(const char* mask, int batch, const AxisList& keys) {
  return {{"mask", {mask}}, {"batch", {batch}}, {"heads", {1}}, {"d", {16, 32, 64, 128}}, {"keys", keys}};
}
GridAxes With(GridAxes axes, const std::string& axis, const AxisList& values) {
  axes.emplace_back(axis, values);
  return axes;
}

const AxisList kImpls = {"naive", "sdpa", "native"};

const Registration kAttention =
    FamilyOf<Attention>("attention", "y = softmax(q · kᵀ / sqrt(d)) · v for many queries at once")
        .Choice("backend", {kAuto, "math", "flash", "efficient", "cudnn"}, "of sdpa; auto: what LibTorch takes", kAuto)
        .Dtypes({"fp32", "bf16", "fp16"})
        .Choice("mask", {kCausal, "none"},
                "causal: the last query sees all keys, each before it one less; what it hides is no work to those who "
                "skip it, all but naive and backend:math",
                kCausal)
        .Size("batch", "sequences", 1)
        .Size("heads", "of queries")
        .Size("kv_heads", "of keys and values, each for as many heads of queries", "heads")
        .Size("queries", "", "keys")
        .Size("keys")
        .Size("d", "length of a head")
        .Work([](const Point& at) {
          const bool writes_scores = at.Text(kImplAxis) == "naive" || at.Text("backend") == "math";
          return writes_scores ? ShapeAt(at).NaiveCost() : ShapeAt(at).FusedCost();
        })
        .Operands(MakeAttention)
        .Result([](const Attention& o) {
          return o.y.reshape({-1, o.y.size(-1)}).index_select(0, o.rows);
        })
        .Reference(ReferenceRows)
        .Whole([](const Attention& o) {
          return o.y.reshape({-1, o.y.size(-1)});
        })
        .RowSums(RowSums)
        // Scores and probabilities are rounded on the way.
        .Within([](const Point& at) {
          return Tolerance{.dtype = at.Dtype(), .reduction = at.Number("keys"), .roundings = 4};
        })
        .Details([](const Point& at, const auto&, Case& built) {
          if (at.Text(kImplAxis) == "naive") built.phases = {"scores", "softmax", "weighted_sum"};
        })
        .Impl("naive", Naive)
        .Impl("sdpa", Sdpa)
        .When(SdpaSupports)
        .Impl("native", OnCpu(PrepareNative))
        .Takes({"fp32", "bf16"}, "our kernel computes in fp32 and bf16")
        .Supports(Supports)
        .Points(Suite::kQuick, Grid(kImpls, {"bf16"}, Gpt2({1024})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Gpt2({1024, 2048})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Llama3({2048})))
        .Points(Suite::kStandard,
                With(Grid({"sdpa"}, {"bf16"}, Gpt2({1024})), "backend", {"math", "flash", "efficient", "cudnn"}))
        .Points(Suite::kFull, Grid(kImpls, {"bf16"}, Llama3({8192})))
        .Points(Suite::kFull, Grid(kImpls, {"fp32"}, OneHead("none", 8, {256, 1024, 4096, 8192, 16384})))
        .Points(Suite::kFull, Grid(kImpls, {"fp32", "bf16"},
                                   OneHead(kCausal, 1, {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536})))
        .Growth("keys", 2);

}  // namespace
}  // namespace roofbench
