// SPDX-License-Identifier: Apache-2.0
// What a family builds for one point: a step to time, and what proves that the step is right.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/timing/sampler.h"
#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench {

// A step, made from a callable that takes nothing or one that takes a timing::PhaseMarker&.
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

// The step's results may differ from the reference by tolerance · (|reference| + rms(reference)), element by element,
// with
//   tolerance = (2 · eps(dtype) + 4 · eps(fp32) · sqrt(reduction)) · sqrt(roundings) · amplification,
// and over a result of 64 elements or more by half of that in the root mean square: a result is rounded to `dtype`, an
// fp32 sum of `reduction` terms wanders like a random walk, and so do `roundings` such results one after another.
// Integer results (eps 0) must be equal.
struct Tolerance {
  workload::Dtype dtype = workload::Dtype::kFp32;
  double reduction = 1;      // terms in the longest sum (k of a product)
  double roundings = 1;      // results that are rounded to dtype one after another
  double amplification = 1;  // how far an error of the first of them may have grown in the last
};

// What a step means to the model that it runs: for rates a token, time to first token, and utilisation.
struct ModelWork {
  // Tokens that a training step processes, or that a generation makes after each sequence's first; and the index of the
  // phase in which it does (nullopt: the whole step).
  double tokens = 0;
  std::optional<std::size_t> token_phase = {};
  double token_bytes = 0;  // of weights, keys and values that making them must read
  double new_tokens = 0;   // of a generation: those tokens and each sequence's first
  // Tokens of the prompts that a generation reads, and the phase, which ends with the first new token.
  double prompt_tokens = 0;
  std::optional<std::size_t> prompt_phase = {};
  double flops = 0;                                // by the model's convention (PaLM), not those of the cost
  workload::Dtype dtype = workload::Dtype::kFp32;  // of the products
};

struct Case {
  CaseStep step = {};
  // Names of the phases that the step marks, in the order of their indices. Counters are called <phase>_ms.
  std::vector<std::string> phases = {};
  // What the last step computed, and the same in a higher precision. Both are called once, before timing.
  std::function<std::vector<at::Tensor>()> result = {};
  std::function<std::vector<at::Tensor>()> reference = {};
  // The reference with what passes between its operations rounded to the precision of the case. Called where the
  // result is beyond the tolerance: it may stray from the reference as far as rounding takes this one, three times over
  // for another order of roundings. Of steps whose operands decide how much an error grows, as a checkpoint does.
  std::function<std::vector<at::Tensor>()> rounded = {};
  // Where `result` holds samples only: all that the step computed, in which no element may be infinite or NaN; and in
  // double precision what each row (the last dimension) of it adds up to, which finds rows that were not sampled. A
  // product's sums are cheap, A · (B · 1) (Freivalds 1977). An undefined sum is not compared.
  std::function<std::vector<at::Tensor>()> whole = {};
  std::function<std::vector<at::Tensor>()> row_sums = {};
  Tolerance tolerance = {};
  // The step records gradients; else it runs without autograd.
  bool autograd = false;
  // What a step does where only building it tells (a generation that ends early): in place of the family's.
  std::optional<workload::Cost> cost = {};
  // Called once after the samples: what the case leaves behind for people to read, beside its figures.
  std::function<std::string()> text = {};
  // Exact number of parameters, for models.
  double parameters = 0;
  ModelWork model = {};
  // Steps before the samples, whatever --warmup_iters says: the very first steps are measured then, and the result is
  // checked after the samples.
  std::optional<int64_t> warmup_iters = {};
  // Samples that are taken even if they exceed the time limits: steps of seconds need more than one.
  int64_t least_samples = 1;
  // Bytes of operands that count in its peak memory though no build of it allocated them (OperandCache).
  double shared_bytes = 0;
  // Figures of the case's own, read after sampling: counter name -> value. The name must be in the table of counters.
  std::vector<std::pair<std::string, std::function<double()>>> figures = {};
};

}  // namespace roofbench
