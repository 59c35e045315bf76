// C = A · B: the arithmetic roof, on squares and on the rectangles of language models.
//
// Squares from 256 (three fp32 operands fit an L2) to 16384 (they fill a GPU). Rectangles: 1, 16 and 256 tokens against
// a 4096 x 4096 attention projection and a 4096 x 14336 feed-forward one (Llama-3-8B, Mixtral); with one token the
// product is bound by the weights' bytes, with 256 by arithmetic.

#include <ATen/ops/_int_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>

#include <memory>
#include <utility>

#include "benchmarks/implementations.h"
#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/harness/graph.h"
#include "lib/harness/onednn.h"
#include "lib/workload/gemm.h"

namespace roofbench {
namespace {

using workload::Dtype;

workload::Gemm WorkAt(const Point& at) {
  return {.m = at.Number("m"), .n = at.Number("n"), .k = at.Number("k"), .dtype = at.Dtype()};
}

// The product of the sampled rows in double precision, a block of columns at a time: the whole of B in double may not
// fit.
at::Tensor ReferenceRows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& rows) {
  constexpr int64_t kBlock = 2048;
  const at::Tensor sampled = a.index_select(0, rows).to(at::kDouble);
  std::vector<at::Tensor> blocks;
  for (int64_t from = 0; from < b.size(1); from += kBlock) {
    const int64_t columns = std::min(kBlock, b.size(1) - from);
    blocks.push_back(at::mm(sampled, b.narrow(1, from, columns).to(at::kDouble)));
  }
  return at::cat(blocks, 1);
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const Dtype dtype = at.Dtype();
  const int64_t m = at.Int("m");
  const int64_t n = at.Int("n");
  const int64_t k = at.Int("k");
  const at::Tensor a = in.Randn({m, k}, dtype);
  // oneDNN's linear layer takes the weight as [n, k].
  const bool onednn = at.Text("impl") == "onednn";
  const at::Tensor weight = onednn ? in.Randn({n, k}, dtype) : in.Randn({k, n}, dtype);
  const at::Tensor b = onednn ? weight.t() : weight;
  const at::Tensor rows = in.SampleRows(m);

  const auto c = std::make_shared<at::Tensor>(in.Empty({m, n}, dtype == Dtype::kInt8 ? at::kInt : StorageType(dtype)));
  Case built{.result = [=] { return std::vector{c->index_select(0, rows)}; },
             .reference = [=] { return std::vector{ReferenceRows(a, b, rows)}; },
             .tolerance = {.dtype = dtype, .reduction = static_cast<double>(k)}};
  if (onednn) {
    built.step = [=] { *c = OnednnLinear(a, weight); };
  } else if (dtype == Dtype::kInt8) {
    built.step = [=] { at::_int_mm_out(*c, a, b); };
  } else {
    built.step = [=] { at::mm_out(*c, a, b); };
  }
  if (at.Text("impl") == "graph") return Graphed(std::move(built), in.device());
  return built;
}

absl::Status Supports(const Point& at, const Device& device) {
  const bool cuda = device.torch_device().is_cuda();
  if (at.Text("impl") == "graph" && cuda && at.Text("cache") == "cold") {
    return absl::UnimplementedError(
        "each of the hundreds of copies that a cold cache takes would be a graph with memory of its own; "
        "--axis=matmul.cache=warm");
  }
  if (at.Text("impl") == "onednn" && at.Dtype() == Dtype::kInt8) {
    return absl::UnimplementedError("oneDNN's linear layer takes no int8 operands; impl:eager does");
  }
  if (cuda && at.Dtype() == Dtype::kInt8 && (at.Int("m") <= 16 || at.Int("n") % 8 != 0 || at.Int("k") % 8 != 0)) {
    return absl::UnimplementedError("_int_mm on a GPU needs m above 16, and n and k in multiples of 8");
  }
  return ImplementationSupports(at, device);
}

const Registration kMatmul(
    Family("matmul", "C[m,n] = A[m,k] · B[k,n]")
        .Axis({.name = "impl",
               .choices = {"eager", "onednn", "graph"},
               .doc = "eager: at::mm; onednn: LibTorch's linear layer through oneDNN; graph: eager in a CUDA graph"})
        .Axis({.name = "dtype", .choices = {"fp32", "tf32", "bf16", "fp16", "int8"}})
        .Axis({.name = "m", .default_value = "n", .doc = "rows of A: tokens"})
        .Axis({.name = "n", .doc = "columns of B"})
        .Axis({.name = "k", .default_value = "n", .doc = "columns of A"})
        .Grid(Suite::kQuick,
              {{"impl", {"eager"}}, {"dtype", {"fp32", "bf16", "int8"}}, {"n", {"256", "512", "1024", "2048"}}})
        .Grid(Suite::kQuick, {{"impl", {"onednn"}}, {"dtype", {"fp32"}}, {"n", {"256", "512", "1024", "2048"}}})
        .Grid(Suite::kQuick,
              {{"impl", {"eager"}}, {"dtype", {"bf16"}}, {"m", {"1", "16", "256"}}, {"n", {"4096"}}, {"k", {"4096"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager", "onednn"}},
                                 {"dtype", {"fp32", "bf16"}},
                                 {"m", {"1", "16", "256"}},
                                 {"n", {"4096", "14336"}},
                                 {"k", {"4096"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager"}},
                                 {"dtype", {"fp32", "tf32", "bf16", "fp16", "int8"}},
                                 {"n", {"256", "512", "1024", "2048", "4096"}}})
        .Grid(Suite::kStandard, {{"impl", {"onednn"}}, {"dtype", {"fp32", "bf16"}}, {"n", {"1024", "2048", "4096"}}})
        // From where launches bind to where they do not, launched one by one and as a graph.
        .Grid(Suite::kStandard, {{"impl", {"eager", "graph"}},
                                 {"dtype", {"bf16"}},
                                 {"n", {"256", "512", "1024", "4096"}},
                                 {"cache", {"warm"}}})
        .Grid(Suite::kFull,
              {{"impl", {"eager"}}, {"dtype", {"fp32", "tf32", "bf16", "fp16", "int8"}}, {"n", {"8192", "16384"}}})
        .Grid(Suite::kFull, {{"impl", {"onednn"}}, {"dtype", {"fp32", "bf16"}}, {"n", {"8192", "16384"}}})
        .ExpectLaw("n", 3)
        .Supports(Supports)
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
