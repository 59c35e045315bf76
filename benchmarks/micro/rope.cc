// Rotary position embedding of a prompt's queries: every element is read and written once.
//
// 32 heads of 128 (Llama-3-8B) for 2048 tokens: 16 MiB a tensor in bf16.

#include <memory>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/family.h"
#include "lib/kernels/rope.h"
#include "lib/models/rope.h"
#include "lib/workload/rope.h"

namespace roofbench {
namespace {

constexpr double kTheta = 500000;

workload::Rope WorkAt(const Point& at) {
  return {.heads = at.Number("heads"), .tokens = at.Number("tokens"), .head_dim = at.Number("d"), .dtype = at.Dtype()};
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t heads = at.Int("heads");
  const int64_t tokens = at.Int("tokens");
  const int64_t d = at.Int("d");
  const at::Tensor x = in.Randn({heads, tokens, d}, at.Dtype());
  const auto y = std::make_shared<at::Tensor>(in.Empty({heads, tokens, d}, at.Dtype()));
  const models::Rope rope(tokens, d, kTheta, at::TensorOptions(in.device().torch_device()));
  const at::Tensor cosines = in.Keep(rope.cosines());
  const at::Tensor sines = in.Keep(rope.sines());
  Case built{.result = [=] { return std::vector{*y}; },
             .reference = [=] { return std::vector{rope.Rotate(x.to(at::kDouble))}; },
             // Eagerly, tables and products are rounded before they are added.
             .tolerance = {.dtype = at.Dtype(), .roundings = 4}};
  if (at.Text("impl") == "native") {
    built.step = WithElement(at.Dtype(), [&](auto element) -> CaseStep {
      using T = decltype(element);
      return [step = NativeStep(kernels::Rope<T>{.x = Elements<T>(x),
                                                 .y = Elements<T>(*y),
                                                 .cosines = Elements<float>(cosines),
                                                 .sines = Elements<float>(sines),
                                                 .rows = heads * tokens,
                                                 .positions = tokens,
                                                 .cols = d},
                                in.device()),
              x, y, cosines, sines] { step(); };
    });
  } else {
    built.step = [=] { *y = rope.Rotate(x); };
  }
  return built;
}

const Registration kRope(
    Family("rope", "rotary position embedding: halves of a head turned by their position's angles")
        .Axis({.name = "impl", .choices = {"eager", "native"}, .doc = "eager: LibTorch; native: our own kernel"})
        .Axis({.name = "dtype", .choices = {"fp32", "bf16"}})
        .Axis({.name = "heads", .default_value = "32"})
        .Axis({.name = "tokens"})
        .Axis({.name = "d", .default_value = "128", .doc = "length of a head; even"})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"tokens", {"2048"}}})
        .Supports([](const Point& at, const Device& device) {
          if (at.Int("d") % 2 != 0)
            return absl::InvalidArgumentError("a head of odd length has no halves; take an even d");
          return ImplementationSupports(at, device);
        })
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
