// The middle of a SwiGLU block: two operands are read and one is written, so memory bandwidth is the roof.
//
// 512 tokens of width 14336 (Llama-3-8B, Mixtral) are 7 Mi elements: three bf16 arrays of 14 MiB.

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/family.h"
#include "lib/kernels/silu_mul.h"
#include "lib/workload/silu_mul.h"

namespace roofbench {
namespace {

workload::SiluMul WorkAt(const Point& at) { return {.elements = at.Number("elements"), .dtype = at.Dtype()}; }

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t n = at.Int("elements");
  const at::Tensor gate = in.Randn({n}, at.Dtype());
  const at::Tensor up = in.Randn({n}, at.Dtype());
  at::Tensor y = in.Empty({n}, at.Dtype());
  Case built{.result = [=] { return std::vector{y}; },
             .reference = [=] { return std::vector{at::silu(gate.to(at::kDouble)) * up.to(at::kDouble)}; },
             // Eagerly, silu's result is rounded before it is multiplied.
             .tolerance = {.dtype = at.Dtype(), .roundings = 2}};
  if (at.Text("impl") == "native") {
    built.step = WithElement(at.Dtype(), [&](auto element) -> CaseStep {
      using T = decltype(element);
      return [step = NativeStep(
                  kernels::SiluMul<T>{.gate = Elements<T>(gate), .up = Elements<T>(up), .y = Elements<T>(y), .n = n},
                  in.device()),
              gate, up, y] { step(); };
    });
  } else {
    built.step = [=]() mutable { at::silu_out(y, gate).mul_(up); };
  }
  return built;
}

const Registration kSiluMul(
    Family("silu_mul", "y = silu(gate) · up, element by element")
        .Axis({.name = "impl", .choices = {"eager", "native"}, .doc = "eager: LibTorch; native: our own kernel"})
        .Axis({.name = "dtype", .choices = {"fp32", "bf16"}})
        .Axis({.name = "elements"})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"elements", {"7340032"}}})
        .Supports(ImplementationSupports)
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
