#include <ATen/ops/gelu.h>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/family.h"
#include "lib/kernels/gelu.h"
#include "lib/workload/gelu.h"

namespace roofbench {
namespace {

workload::Gelu WorkAt(const Point& at) { return {.elements = at.Number("elements"), .dtype = at.Dtype()}; }

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const at::Tensor x = in.Randn({at.Int("elements")}, at.Dtype());
  at::Tensor y = in.Empty({at.Int("elements")}, at.Dtype());
  Case built{.result = [=] { return std::vector{y}; },
             .reference = [=] { return std::vector{at::gelu(x.to(at::kDouble))}; },
             // 1 + erf(x) cancels where x is far below 0.
             .tolerance = {.dtype = at.Dtype(), .amplification = 8}};
  if (at.Text("impl") == "native") {
    built.step = WithElement(at.Dtype(), [&](auto element) -> CaseStep {
      using T = decltype(element);
      return
          [step = NativeStep(kernels::Gelu<T>{.x = Elements<T>(x), .y = Elements<T>(y), .n = x.numel()}, in.device()),
           x, y] { step(); };
    });
  } else {
    built.step = [x, y]() mutable { at::gelu_out(y, x); };
  }
  return built;
}

// 16 Mi elements: two bf16 arrays of 32 MiB, beyond the last-level cache of a desktop.
const Registration kGelu(Family("gelu", "y = GELU(x), element by element")
                             .Axis({.name = "impl",
                                    .choices = {"eager", "native"},
                                    .default_value = "eager",
                                    .doc = "eager: LibTorch; native: our own kernel"})
                             .Axis({.name = "dtype", .choices = {"fp32", "bf16"}})
                             .Axis({.name = "elements"})
                             .Grid(Suite::kQuick, {{"dtype", {"fp32", "bf16"}}, {"elements", {"16777216"}}})
                             .Grid(Suite::kStandard,
                                   {{"impl", {"native"}}, {"dtype", {"fp32", "bf16"}}, {"elements", {"16777216"}}})
                             .Supports(ImplementationSupports)
                             .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
                             .Build(Build));

}  // namespace
}  // namespace roofbench
