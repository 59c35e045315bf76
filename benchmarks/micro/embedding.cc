// Tokens to vectors: rows of a table, copied by number.
//
// 8192 tokens of width 4096 (Llama-3-8B) are 64 MiB in bf16, out of a table of 32000 (250 MiB).

#include <ATen/ops/index_select.h>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/family.h"
#include "lib/kernels/embedding.h"
#include "lib/workload/embedding.h"

namespace roofbench {
namespace {

workload::Embedding WorkAt(const Point& at) {
  return {.vocabulary = at.Number("vocabulary"),
          .tokens = at.Number("tokens"),
          .cols = at.Number("d"),
          .dtype = at.Dtype()};
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t tokens = at.Int("tokens");
  const int64_t d = at.Int("d");
  const at::Tensor table = in.Randn({at.Int("vocabulary"), d}, at.Dtype());
  const at::Tensor index = in.Integers(0, at.Int("vocabulary"), {tokens});
  at::Tensor y = in.Empty({tokens, d}, at.Dtype());
  const at::Tensor sampled = in.SampleRows(tokens);
  Case built{
      .result = [=] { return std::vector{y.index_select(0, sampled)}; },
      .reference = [=] { return std::vector{table.index_select(0, index.index_select(0, sampled)).to(at::kDouble)}; },
      .tolerance = {.dtype = at.Dtype()}};
  if (at.Text("impl") == "native") {
    built.step = WithElement(at.Dtype(), [&](auto element) -> CaseStep {
      using T = decltype(element);
      return [step = NativeStep(kernels::Embedding<T>{.table = Elements<T>(table),
                                                      .index = Elements<int64_t>(index),
                                                      .y = Elements<T>(y),
                                                      .rows = tokens,
                                                      .cols = d},
                                in.device()),
              table, index, y] { step(); };
    });
  } else {
    // What at::embedding calls for a list of tokens, with a result that is there already.
    built.step = [=]() mutable { at::index_select_out(y, table, 0, index); };
  }
  return built;
}

const Registration kEmbedding(
    Family("embedding", "y[i] = table[index[i]], row by row, at random indices")
        .Axis({.name = "impl", .choices = {"eager", "native"}, .doc = "eager: LibTorch; native: our own kernel"})
        .Axis({.name = "dtype", .choices = {"fp32", "bf16"}})
        .Axis({.name = "vocabulary", .default_value = "32000", .doc = "rows of the table"})
        .Axis({.name = "tokens", .default_value = "8192"})
        .Axis({.name = "d", .doc = "length of a row"})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"d", {"768", "4096"}}})
        .Supports(ImplementationSupports)
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
