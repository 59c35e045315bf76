// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/parallel_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "lib/aten/precision_scopes.h"
#include "lib/aten/storage_type.h"
#include "lib/observe/ranges.h"
#include "lib/timing/statistics.h"

namespace roofbench::models {
namespace {

constexpr int kCheckedSteps = 5;

std::vector<at::Tensor> Copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

// Seconds of each call on the slowest rank; every rank calls it with as many calls.
std::vector<double> SlowestSeconds(ranks::Group& group, timing::Clock& clock,
                                   const std::vector<std::function<void()>>& calls) {
  clock.BeginChunk(2 * calls.size());
  for (const std::function<void()>& call : calls) {
    group.Meet();
    clock.Mark();
    call();
    clock.Mark();
  }
  const std::span<const double> marks = clock.EndChunk();
  const auto count = static_cast<int64_t>(calls.size());
  at::Tensor mine = at::empty({count}, at::kDouble);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    mine.mutable_data_ptr<double>()[i] = marks[2 * i + 1] - marks[2 * i];
  }
  at::Tensor all = at::empty({group.size() * count}, at::kDouble);
  group.AllGather(all, mine);
  const at::Tensor slowest = std::get<0>(all.view({group.size(), count}).max(0));
  return {slowest.const_data_ptr<double>(), slowest.const_data_ptr<double>() + count};
}

}  // namespace

ParallelModel ParallelTransformer::operator()(const ParallelModelOptions& options) const {
  TransformerContext context = run_context;
  context.heads = static_cast<int64_t>(shape.heads) / options.ranks;
  context.hooks = &options.hooks;
  const auto model = std::make_shared<TransformerModel>(shape, tokens.size(1), context, options.make);
  ParallelModel parts;
  const auto add = [&](std::size_t unit, const at::Tensor& tensor, int64_t split = SharedParameter::kWhole) {
    parts.parameters.push_back({tensor, unit, split});
  };
  add(0, model->embedding);
  for (std::size_t i = 0; i < model->blocks.size(); ++i) {
    const TransformerBlock& block = model->blocks[i];
    add(i + 1, block.attention_norm);
    for (const at::Tensor& by_heads : {block.query, block.key, block.value}) add(i + 1, by_heads, 0);
    add(i + 1, block.output, 1);
    add(i + 1, block.feed_forward_norm);
    for (const at::Tensor& by_features : {block.gate, block.up}) add(i + 1, by_features, 0);
    add(i + 1, block.down, 1);
  }
  add(model->blocks.size() + 1, model->norm);
  add(model->blocks.size() + 1, model->head);
  const int64_t sequences = tokens.size(0) / options.parts;
  const auto part = [&](const at::Tensor& all) { return all.narrow(0, options.part * sequences, sequences); };
  parts.forward = [model, casts = autocast, x = part(tokens), y = part(targets)] {
    const Autocast guard(casts, x.device().type());
    return model->Loss(x, y);
  };
  parts.backward = [](const at::Tensor& loss) { loss.backward(); };
  return parts;
}

ParallelRun::ParallelRun(std::shared_ptr<ranks::Group> group, const BuildModel& build,
                         const TransformerModel::MakeParameter& make, const Options& options)
    : group_(std::move(group)),
      build_(build),
      options_(options),
      parallel_(Parallel::Make(options.kind, *group_, options.bucket_bytes)) {
  const bool splits_batch = kParallelRows[static_cast<std::size_t>(options.kind)].splits_batch;
  model_ = build_({.make = make,
                   .hooks = *parallel_,
                   .ranks = options.kind == ParallelKind::kTensor ? group_->size() : 1,
                   .part = splits_batch ? group_->rank() : 0,
                   .parts = splits_batch ? group_->size() : 1});
  parallel_->Share(model_.parameters);
  if (options.make_optimizer != nullptr) optimizer_ = options.make_optimizer(parallel_->Owned(), options.settings);
}

void ParallelRun::Step(const std::function<void(ParallelPhase)>& end) {
  const at::AutoGradMode grad(true);
  parallel_->traffic().Restart(parallel_->traffic().exchanges());
  for (int64_t pass = 0; pass < options_.passes; ++pass) {
    observe::Range range(observe::kZeroGradRange);
    parallel_->ForgetGradients();
    range.Next("forward");
    parallel_->BeforeForward();
    const at::Tensor y = model_.forward();
    end(ParallelPhase::kForward);
    range.Next("backward");
    parallel_->BeforeBackward();
    model_.backward(y);
    end(ParallelPhase::kBackward);
    range.Next("synchronize");
    parallel_->AfterBackward();
    end(ParallelPhase::kSynchronize);
    gradient_bytes_ = BytesOf(GradientsOf(parallel_->Owned()));
    if (before_update_) before_update_();
    if (optimizer_ == nullptr) continue;
    range.Next(observe::kOptimizerRange);
    optimizer_->Step();
    parallel_->ForgetGradients();
    parallel_->AfterUpdate();
    end(ParallelPhase::kOptimizer);
  }
  if (parallel_->traffic().exchanges()) sent_bytes_ = parallel_->traffic().SentBytes();
}

std::vector<at::Tensor> ParallelRun::ParametersThenGradients(const std::vector<at::Tensor>& parameters,
                                                             const std::vector<at::Tensor>& gradients) const {
  std::vector<at::Tensor> both;
  if (options_.make_optimizer != nullptr) both = Copies(parameters);
  for (const at::Tensor& gradient : gradients) both.push_back(gradient.detach().clone());
  return both;
}

std::vector<at::Tensor> ParallelRun::Result() {
  const std::vector<at::Tensor>& owned = parallel_->Owned();
  const std::vector<at::Tensor> before = Copies(owned);
  std::unique_ptr<Optimizer> kept = std::move(optimizer_);
  if (options_.make_optimizer != nullptr) optimizer_ = options_.make_optimizer(owned, options_.settings);
  std::vector<at::Tensor> gradients;
  before_update_ = [&] { gradients = Copies(GradientsOf(owned)); };
  for (int step = 0; step < (optimizer_ == nullptr ? 1 : kCheckedSteps); ++step) Step([](ParallelPhase) {});
  before_update_ = nullptr;
  optimizer_ = std::move(kept);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> result = ParametersThenGradients(parallel_->Whole(owned), parallel_->Whole(gradients));
  for (std::size_t i = 0; i < owned.size(); ++i) at::Tensor(owned[i].detach()).copy_(before[i]);
  parallel_->AfterUpdate();
  return result;
}

std::vector<at::Tensor> ParallelRun::Reference() {
  const std::vector<at::Tensor> whole = parallel_->Whole(parallel_->Owned());
  std::vector<at::Tensor> reference;
  if (group_->rank() == 0) {
    const at::AutoGradMode grad(true);
    std::size_t next = 0;
    // Whatever a parallel step may have broken, the values are rank 0's own.
    const TransformerModel::MakeParameter make = [&](at::IntArrayRef, double) {
      return whole.at(next++).detach().clone().requires_grad_(true);
    };
    const ParallelModel model = build_({.make = make, .hooks = NoHooks(), .ranks = 1, .part = 0, .parts = 1});
    const std::vector<at::Tensor> parameters = TensorsOf(model.parameters);
    std::unique_ptr<Optimizer> optimizer;
    if (options_.make_optimizer != nullptr) optimizer = options_.make_optimizer(parameters, options_.settings);
    std::vector<at::Tensor> gradients;
    for (int step = 0; step < (optimizer == nullptr ? 1 : kCheckedSteps); ++step) {
      model.backward(model.forward());
      gradients = GradientsOf(parameters);
      if (optimizer != nullptr) optimizer->Step();
      for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    }
    reference = ParametersThenGradients(parameters, gradients);
  } else {
    for (const at::Tensor& tensor : ParametersThenGradients(whole, whole)) reference.push_back(at::empty_like(tensor));
  }
  for (at::Tensor& tensor : reference) {
    tensor = tensor.contiguous();
    group_->Broadcast(tensor, 0);
  }
  return reference;
}

ParallelTimes MeasureTimes(Traffic& traffic, timing::Clock& clock, const std::function<void()>& step, double seconds) {
  constexpr double kFewestRounds = 3;
  constexpr double kMostRounds = 100;
  ranks::Group& group = traffic.group();
  step();
  const std::function<void()> exchange = traffic.Repetition();
  const std::vector<std::function<void()>> calls = {step,
                                                    [&] {
                                                      traffic.Restart(/*exchanges=*/false);
                                                      step();
                                                      traffic.Restart(/*exchanges=*/true);
                                                    },
                                                    exchange};
  enum { kStep, kComputation, kCommunication };
  const double round = SlowestSeconds(group, clock, calls)[kStep] * static_cast<double>(calls.size());
  const auto rounds = static_cast<int>(std::clamp(seconds / round, kFewestRounds, kMostRounds));
  std::vector<double> computation, communication, exposed;
  for (int i = 0; i < rounds; ++i) {
    const std::vector<double> slowest = SlowestSeconds(group, clock, calls);
    computation.push_back(slowest[kComputation]);
    communication.push_back(slowest[kCommunication]);
    exposed.push_back(slowest[kStep] - slowest[kComputation]);
  }
  return {timing::Median(computation), timing::Median(communication), timing::Median(exposed)};
}

const ParallelTimes& ParallelRun::MeasuredTimes(double seconds) {
  const auto step = [this] { Step([](ParallelPhase) {}); };
  if (!times_) times_ = MeasureTimes(parallel_->traffic(), *options_.clock, step, seconds);
  return *times_;
}

double ParallelRun::ParameterBytes() const { return BytesOf(parallel_->Owned()); }

double ParallelRun::OptimizerBytes() const { return optimizer_ == nullptr ? 0 : BytesOf(optimizer_->State()); }

}  // namespace roofbench::models
