// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/beam_search.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "lib/models/generation/sampling.h"
#include "lib/models/size.h"

namespace roofbench::models {
namespace {

constexpr double kNever = -1e9;  // the score of an unused beam, below any sum of log probabilities

}  // namespace

BeamSearch::BeamSearch(const BeamOptions& options, int64_t vocab, int64_t most_new, TokenIds stop_ids)
    : options_(options),
      vocab_(vocab),
      most_new_(most_new),
      stop_ids_(std::move(stop_ids)),
      parents_(Size(options.beams)),
      tokens_(Size(options.beams)) {
  // Enough that all beams continue, whichever texts end.
  const auto kept = std::max<std::size_t>(2, 1 + stop_ids_.size()) * Size(options.beams);
  TORCH_CHECK(kept <= Size(vocab), options.beams, " beams need ", kept, " tokens, and the vocabulary has ", vocab);
  continuations_.resize(kept);
  Restart();
}

void BeamSearch::Restart() {
  running_.assign(Size(options_.beams), {.score = kNever});
  running_.front().score = 0;  // the prompt, once
  finished_.clear();
  steps_ = 0;
  can_improve_ = true;
}

void BeamSearch::FindContinuations(const at::Tensor& logits) {
  std::vector<double> before;
  for (const Text& text : running_) before.push_back(text.score);
  const at::Tensor scores = at::log_softmax(logits, -1, at::kDouble).add_(at::tensor(before, at::kDouble).unsqueeze(1));
  const auto [best, where] = at::topk(scores.view({-1}), static_cast<int64_t>(continuations_.size()));
  for (std::size_t i = 0; i < continuations_.size(); ++i) {
    const int64_t place = where.const_data_ptr<int64_t>()[i];
    continuations_[i] = {.score = best.const_data_ptr<double>()[i], .parent = place / vocab_, .token = place % vocab_};
  }
}

bool BeamSearch::Ends(const Continuation& one) const {
  return steps_ == most_new_ || std::ranges::find(stop_ids_, one.token) != stop_ids_.end();
}

void BeamSearch::Finish(const at::Tensor& logits) {
  const double length = std::pow(static_cast<double>(steps_), options_.length_penalty);
  // Continuations after the first `beams` may continue, but not finish.
  for (std::size_t i = 0; i < Size(options_.beams) && can_improve_; ++i) {
    const Continuation& one = continuations_[i];
    if (!Ends(one)) continue;
    const double score = one.score / length;
    const auto place = std::ranges::find_if(finished_, [&](const Text& text) { return text.score < score; });
    if (place == finished_.end() && finished_.size() == Size(options_.beams)) continue;
    Text text{.ids = running_[Size(one.parent)].ids, .score = score, .logits = logits[one.parent].clone()};
    text.ids.push_back(one.token);
    finished_.insert(place, std::move(text));
    if (finished_.size() > Size(options_.beams)) finished_.pop_back();
  }
}

bool BeamSearch::CanImprove() const {
  if (finished_.size() < Size(options_.beams)) return true;
  if (options_.early_stopping == EarlyStopping::kTrue) return false;
  // A longer text has a lower sum, which a penalty above 0 divides by more.
  const bool gains = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
  const auto length = static_cast<double>(gains ? most_new_ : steps_);
  const double best = running_.front().score / std::pow(length, options_.length_penalty);
  return best > finished_.back().score;
}

bool BeamSearch::Advance(const at::Tensor& given) {
  const at::Tensor logits = given.to(at::kCPU).contiguous();
  CheckFinite(logits.const_data_ptr<float>(), logits.numel());
  FindContinuations(logits);
  ++steps_;
  Finish(logits);
  std::vector<Text> next;
  for (const Continuation& one : continuations_) {
    if (Ends(one) || next.size() == Size(options_.beams)) continue;
    parents_[next.size()] = one.parent;
    tokens_[next.size()] = one.token;
    next.push_back({.ids = running_[Size(one.parent)].ids, .score = one.score});
    next.back().ids.push_back(one.token);
  }
  if (next.empty()) return false;
  running_ = std::move(next);
  can_improve_ = can_improve_ && CanImprove();
  return can_improve_;
}

}  // namespace roofbench::models
