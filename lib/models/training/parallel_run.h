// SPDX-License-Identifier: Apache-2.0
// The training step that several ranks share, its check against one process, and its times with and without what the
// ranks exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/models/training/optimizer.h"
#include "lib/models/training/parallel.h"
#include "lib/models/training/transformer_model.h"
#include "lib/timing/clock.h"

namespace roofbench::models {

// A model with its batch, as functions.
struct ParallelModel {
  std::vector<SharedParameter> parameters;  // as Parallel::Share takes them
  std::function<at::Tensor()> forward;
  std::function<void(const at::Tensor& y)> backward;  // of what forward returned
};

// How to build it.
struct ParallelModelOptions {
  const TransformerModel::MakeParameter& make;
  ForwardHooks& hooks;
  int ranks;        // that the parameters are divided among, as ParallelKind::kTensor does
  int part, parts;  // of the batch, the one with this index; the mean of the gradients of all parts is the whole's
};

// The transformer of this shape, divided by heads and by features of the feed-forward layers; `run_context` has its
// own number of heads and hooks. Tokens and targets [sequences of all parts, context].
struct ParallelTransformer {
  workload::Transformer shape;
  TransformerContext run_context;
  bool autocast = false;
  at::Tensor tokens;
  at::Tensor targets;

  ParallelModel operator()(const ParallelModelOptions& options) const;
};

// Times of a step that ranks share, in seconds of the slowest rank.
struct ParallelTimes {
  double computation = 0;    // the step without its exchanges
  double communication = 0;  // these alone
  double exposed = 0;        // what they add to the step
  // The share of communication that computation hides; below 0 where the two slow each other down.
  double Overlap() const { return communication > 0 ? 1 - exposed / communication : 0; }
};

// Measures them in turns for about so long, on all ranks. The traffic is that of `step`, which restarts it. A step
// without exchanges may leave something else on each rank.
ParallelTimes MeasureTimes(Traffic& traffic, timing::Clock& clock, const std::function<void()>& step, double seconds);

enum class ParallelPhase { kForward, kBackward, kSynchronize, kOptimizer };

class ParallelRun {
 public:
  struct Options {
    ParallelKind kind = ParallelKind::kNaive;
    int64_t bucket_bytes = 0;
    int64_t passes = 1;                      // forward and backward passes in a step, each with its update
    MakeOptimizer make_optimizer = nullptr;  // null: gradients alone
    OptimizerSettings settings = {};
    std::shared_ptr<timing::Clock> clock = std::make_shared<timing::CpuClock>();  // of the device that computes
  };
  using BuildModel = std::function<ParallelModel(const ParallelModelOptions& options)>;

  // `make` gives the same values on every rank.
  ParallelRun(std::shared_ptr<ranks::Group> group, const BuildModel& build, const TransformerModel::MakeParameter& make,
              const Options& options);

  // Calls `end` after each phase.
  void Step(const std::function<void(ParallelPhase)>& end);

  // Parameters after five steps with a new optimizer, and the gradients of the last one: of all ranks together, and of
  // one process that has rank 0's parameters and the whole batch. Without an optimizer the gradients alone. Both leave
  // parameters and optimizer as they were; every rank calls both.
  std::vector<at::Tensor> Result();
  std::vector<at::Tensor> Reference();

  // Measured when first asked for. Leaves the parameters of each rank different.
  const ParallelTimes& MeasuredTimes(double seconds = 1);
  // Sent by the busiest rank in a step.
  double SentBytes() const { return sent_bytes_; }

  // Kept by a rank between steps.
  double ParameterBytes() const;
  double OptimizerBytes() const;
  double GradientBytes() const { return gradient_bytes_; }

 private:
  std::vector<at::Tensor> ParametersThenGradients(const std::vector<at::Tensor>& parameters,
                                                  const std::vector<at::Tensor>& gradients) const;

  const std::shared_ptr<ranks::Group> group_;
  const BuildModel build_;
  const Options options_;
  std::unique_ptr<Parallel> parallel_;
  ParallelModel model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::function<void()> before_update_;  // of the check
  double sent_bytes_ = 0;
  double gradient_bytes_ = 0;
  std::optional<ParallelTimes> times_;
};

}  // namespace roofbench::models
