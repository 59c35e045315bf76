// Probabilities from logits: every element is read and written once, and takes an exponential on the way.
//
// The shapes of the norms: 4096 rows of 1024 (8 MiB in bf16, within a last-level cache) to 16384 (128 MiB).

#include <ATen/ops/_softmax.h>

#include <memory>

#include "benchmarks/gpu_native.h"
#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/compiled.h"
#include "lib/harness/family.h"
#include "lib/kernels/softmax.h"
#include "lib/workload/softmax.h"

namespace roofbench {
namespace {

workload::Softmax WorkAt(const Point& at) {
  return {.rows = at.Number("rows"), .cols = at.Number("d"), .dtype = at.Dtype()};
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t rows = at.Int("rows");
  const int64_t cols = at.Int("d");
  const at::Tensor x = in.Randn({rows, cols}, at.Dtype());
  const auto result = std::make_shared<at::Tensor>(in.Empty({rows, cols}, at.Dtype()));
  at::Tensor y = *result;
  const at::Tensor sampled = in.SampleRows(rows);
  Case built{
      .result = [=] { return std::vector{result->index_select(0, sampled)}; },
      .reference = [=] { return std::vector{at::_softmax(x.index_select(0, sampled).to(at::kDouble), 1, false)}; },
      .tolerance = {.dtype = at.Dtype(), .reduction = at.Number("d")}};
  if (at.Text("impl") == "compiled") {
    const auto compiled = Compile("softmax", {x}, in.device());
    if (!compiled.ok()) return compiled.status();
    built.step = [=, operation = *compiled] { *result = operation({x}); };
  } else if (IsNativeOnGpu(at, in.device())) {
    built.step =
        GpuStep(in.device(), [=, type = RowTypeOf(at.Dtype())](const kernels::GpuKernels& table, void* stream) {
          return table.softmax(type, y.data_ptr(), x.const_data_ptr(), rows, cols, stream);
        });
  } else if (at.Text("impl") == "native") {
    built.step = WithElement(at.Dtype(), [&](auto element) -> CaseStep {
      using T = decltype(element);
      return
          [step = NativeStep(kernels::Softmax<T>{.x = Elements<T>(x), .y = Elements<T>(y), .rows = rows, .cols = cols},
                             in.device()),
           x, y] { step(); };
    });
  } else {
    built.step = [=]() mutable { at::_softmax_out(y, x, 1, false); };
  }
  return built;
}

const Registration kSoftmax(
    Family("softmax", "y = exp(x - max) / sum(exp(x - max)), row by row")
        .Axis({.name = "impl",
               .choices = {"eager", "compiled", "native"},
               .doc = "eager: LibTorch; compiled: by its Inductor; native: our own kernel"})
        .Axis({.name = "dtype", .choices = {"fp32", "bf16"}})
        .Axis({.name = "rows", .default_value = "4096"})
        .Axis({.name = "d", .doc = "length of a row"})
        .Grid(Suite::kQuick, {{"impl", {"eager", "native"}}, {"dtype", {"bf16"}}, {"d", {"4096"}}})
        .Grid(Suite::kStandard,
              {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"d", {"1024", "4096", "8192", "16384"}}})
        .Grid(Suite::kStandard, {{"impl", {"compiled"}}, {"dtype", {"bf16"}}, {"d", {"4096", "8192"}}})
        .Supports([](const Point& at, const Device& device) {
          return IsNativeOnGpu(at, device) ? GpuRowsSupport(device, at.Int("d")) : ImplementationSupports(at, device);
        })
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
