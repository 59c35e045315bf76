// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/generation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace roofbench::models {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Generation::Generation(std::unique_ptr<DecoderModel> decoder, int64_t vocab, Options options)
    : decoder_(std::move(decoder)),
      options_(std::move(options)),
      chooser_(options_.choice, vocab),
      chosen_(at::zeros({options_.most_new, options_.prompt.size(0)}, at::kLong)) {
  constexpr std::size_t kMostGaps = 1 << 20;  // more would allocate in a run
  gaps_.reserve(kMostGaps);
}

bool Generation::Choose(const at::Tensor& logits) {
  logits_ = logits.to(at::kCPU);
  const int64_t batch = logits_.size(0);
  int64_t* const ids = chosen_.data_ptr<int64_t>() + made_++ * batch;
  for (int64_t b = 0; b < batch; ++b) ids[b] = chooser_.Choose(logits_.data_ptr<float>() + b * logits_.size(1));
  const TokenIds& stops = options_.stop_ids;
  return made_ == chosen_.size(0) || std::find(stops.begin(), stops.end(), ids[0]) != stops.end();
}

void Generation::Run(const std::function<void()>& prompt_read) {
  const double start = Now();
  chooser_.Restart();
  decoder_->Truncate(0);
  made_ = 0;
  bool ended = Choose(decoder_->Append(options_.prompt));
  prompt_read();
  const bool first = runs_++ == 0;
  double last = Now();
  while (!ended) {
    ended = Choose(decoder_->AppendOne(chosen_.data_ptr<int64_t>() + (made_ - 1) * chosen_.size(1)));
    const double now = Now();
    if (!first) gaps_.push_back(now - last);
    last = now;
  }
  if (first) first_seconds_ = Now() - start;
}

TokenIds Generation::Ids() const {
  const auto* const ids = chosen_.const_data_ptr<int64_t>();
  return {ids, ids + made_ * chosen_.size(1)};
}

at::Tensor Generation::Read() const {
  return at::cat({options_.prompt.to(at::kCPU), chosen_.narrow(0, 0, std::max<int64_t>(made_ - 1, 0)).t()}, 1);
}

}  // namespace roofbench::models
