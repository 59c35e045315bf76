// SPDX-License-Identifier: Apache-2.0
// The optimizer's step: four fp32 numbers an element, three of them updated in place, so memory bandwidth is the roof.
//
// 100 M parameters are 1.6 GB, far beyond any cache, in the tensors of a small language model (12 layers of width 768
// are 85 M); 10 M are 160 MB, beyond a desktop's last level. Every step advances the step count, because recorded or
// compiled steps would treat a fixed count as a constant.

#include <optional>

#include "lib/models/training/optimizer.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

const models::OptimizerSettings kSettings;
constexpr int64_t kTensors = 16;

struct State : models::AdamWTensors {
  std::vector<at::Tensor> steps;  // counts on the device, of `fused`
  std::vector<at::Tensor> start;  // the last parameter, mean and square before the first step
  double step = 0;

  std::vector<at::Tensor> Last() const { return {parameters.back(), means.back(), squares.back()}; }
};

// Pieces of one array, so that a cold copy of a kind is one clone.
std::vector<at::Tensor> Pieces(const at::Tensor& whole) { return whole.tensor_split(kTensors); }

State MakeState(const Point& at, Inputs& in) {
  const int64_t parameters = at.Int("parameters");
  State state{{.parameters = Pieces(in.Randn({parameters})),
               .gradients = Pieces(in.Randn({parameters})),
               .means = Pieces(in.Randn({parameters}, workload::Dtype::kFp32, 0.1)),
               .squares = Pieces(in.Randn({parameters}).abs_())},  // a copy takes the absolute value again
              in.Empty({kTensors}, at::kFloat).zero_().unbind(),
              {}};
  for (const at::Tensor& tensor : state.Last()) state.start.push_back(tensor.clone());
  return state;
}

// The last tensors after all steps.
std::vector<at::Tensor> Reference(State& state) {
  at::Tensor parameter = state.start[0];
  std::optional<models::AdamWState> moments = {{state.start[1], state.start[2]}};
  for (double step = 1; step <= state.step; ++step) {
    parameter = models::UpdateByFormula(parameter, state.gradients.back(), kSettings, moments);
  }
  state.start.clear();  // needed once
  return {parameter, moments->first_moment, moments->second_moment};
}

const Registration kAdamW =
    FamilyOf<State>("adamw", "one step of AdamW over fp32 parameters in 16 tensors")
        .Size("parameters")
        .Work([](const Point& at) { return workload::AdamW{at.Number("parameters")}.StepCost(); })
        .Operands(MakeState)
        .Result([](const State& state) { return state.Last(); })
        .Reference(Reference)
        .Within([](const Point&) { return Tolerance{.roundings = 4}; })
        .Impl("single", [](State& state) { models::UpdateSingle(state, ++state.step, kSettings); })
        .Impl("foreach", [](State& state) { models::UpdateForeach(state, ++state.step, kSettings); })
        .Impl("fused",
              [](State& state) {
                ++state.step;
                models::UpdateFused(state, state.steps, kSettings);
              })
        .Impl("native", OnCpu([](State&, const Point&, Inputs& in) {
                return [threads = in.device().threads()](State& state) {
                  models::UpdateNative(state, static_cast<int64_t>(++state.step), kSettings,
                                       kernels::ThreadPool(threads));
                };
              }))
        .Points(Suite::kStandard,
                {{"impl", {"single", "foreach", "fused", "native"}}, {"parameters", {10'000'000, 100'000'000}}});

}  // namespace
}  // namespace roofbench
