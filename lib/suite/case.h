// SPDX-License-Identifier: Apache-2.0
// The product of a family for one point: a step to time, and the means to check its result.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/timing/sampler.h"
#include "lib/workload/cost.h"
#include "lib/workload/model_work.h"
#include "lib/workload/tolerance.h"

namespace roofbench {

// A step, constructed from a callable that takes nothing or a timing::PhaseMarker&.
class CaseStep {
 public:
  CaseStep() = default;
  template <typename Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, CaseStep>)
      CaseStep(Callable&& callable) {  // NOLINT(google-explicit-constructor): a lambda is meant to convert
    if constexpr (std::invocable<Callable&>) {
      step_ = [callable = std::forward<Callable>(callable)](timing::PhaseMarker&) mutable { callable(); };
    } else {
      step_ = std::forward<Callable>(callable);
    }
  }
  void operator()(timing::PhaseMarker& marker) const { step_(marker); }
  explicit operator bool() const { return static_cast<bool>(step_); }

 private:
  timing::Step step_;
};

using workload::ModelWork;
using workload::Tolerance;

// Memory that a step leaves for the next one.
struct StepEffects {
  std::vector<at::Tensor> overwritten = {};  // whatever was there before
  std::vector<at::Tensor> updated = {};      // in place, from what was there before
};

// Rows of a tensor: of its last dimension, or single elements if it has but one.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
  // In double precision.
  at::Tensor Of(const at::Tensor& tensor) const {
    return (tensor.dim() > 1 ? tensor.flatten(0, -2) : tensor).narrow(0, first, count).to(at::kDouble);
  }
};

struct Case {
  CaseStep step = {};
  // Called before the checked step and before each sample, outside of the timed part: restores operands that steps
  // overwrite. A sample of a short step repeats the step without it.
  std::function<void()> prepare = {};
  // Names of the phases that the step marks, in index order. Counters are called <phase>_ms.
  std::vector<std::string> phases = {};
  // The marks of the phases take a share of the step: the samples go without, and a few marked steps follow them.
  bool marks_beside = false;
  // The result of the last step, and the same in a higher precision. Both are called once, before timing; with
  // `changing`, several times.
  std::function<std::vector<at::Tensor>()> result = {};
  std::function<std::vector<at::Tensor>()> reference = {};
  // In place of `reference`, for one result whose rows can be computed alone: the reference of some of them. Called
  // more than once, for so few rows that a large case needs no memory for a second result.
  std::function<at::Tensor(const RowRange&)> reference_rows = {};
  // For a step whose `result` is computed for the check, not left in memory by the step (a training step): what it does
  // leave, so that a recorded step can be compared with it.
  std::function<StepEffects()> effects = {};
  // What a step reads anew each time, whatever its values: parts of it are exchanged between samples, and the result
  // overwritten, so that a step that keeps its result is found (lib/run/spot_checks.h). Not called where the reference
  // cannot be computed once more.
  std::function<std::vector<at::Tensor>()> changing = {};
  // DataLoss where a step has put another tensor into the place of an operand, of which the reference is then computed.
  std::function<absl::Status()> keeps_operands = {};
  // The reference with intermediates rounded to the precision of the case, for steps whose operands determine how much
  // an error grows (a checkpoint, for example). Called if the result exceeds the tolerance: it may then differ from the
  // reference by three times as much as this one does, because the order of roundings differs.
  std::function<std::vector<at::Tensor>()> rounded = {};
  // For a `result` that holds samples only: the whole result, in which no element may be infinite or NaN; and the sum
  // of each of its rows (last dimension) in double precision, to detect errors in rows that were not sampled. The sums
  // of a product are cheap, A · (B · 1) (Freivalds 1977). An undefined sum is not compared.
  std::function<std::vector<at::Tensor>()> whole = {};
  std::function<std::vector<at::Tensor>()> row_sums = {};
  Tolerance tolerance = {};
  std::vector<Tolerance> tolerances = {};  // of each result, where they differ
  const Tolerance& ToleranceOf(std::size_t index) const {
    return index < tolerances.size() ? tolerances[index] : tolerance;
  }
  // The step records gradients; otherwise it runs without autograd.
  bool autograd = false;
  // Cost of a step that is only known once built (a generation that ends early): replaces the family's.
  std::optional<workload::Cost> cost = {};
  // Called once after the samples: text output of the case for users, in addition to its figures.
  std::function<std::string()> text = {};
  // Exact number of parameters, for models.
  double parameters = 0;
  ModelWork model = {};
  // Number of steps before the samples, overriding --warmup_iters: used to measure the very first steps, in which case
  // the result is checked after the samples.
  std::optional<int64_t> warmup_iters = {};
  // Minimum number of samples even if they exceed the time limits, because steps of seconds need more than one.
  int64_t least_samples = 1;
  // Bytes of operands that count in its peak memory although no build of the case allocated them (OperandCache).
  double shared_bytes = 0;
  // Additional figures of the case, read after sampling: counter name -> value. The name must be in the table of
  // counters.
  std::vector<std::pair<std::string, std::function<double()>>> figures = {};
  void AddFigure(const std::string& name, double value) {
    figures.emplace_back(name, [value] { return value; });
  }
  // A number of things in the last step; the counter is absent where there were none.
  void AddCount(const std::string& name, std::function<int64_t()> count) {
    figures.emplace_back(name, [count = std::move(count)] {
      const int64_t n = count();
      return n > 0 ? static_cast<double>(n) : std::numeric_limits<double>::quiet_NaN();
    });
  }
};

}  // namespace roofbench
