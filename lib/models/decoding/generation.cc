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

class HostTimes final : public TokenTimes {
 public:
  explicit HostTimes(int64_t most) { marks_.reserve(static_cast<std::size_t>(most)); }
  void Restart() override { marks_.clear(); }
  void Mark() override { marks_.push_back(Now()); }
  void Gaps(std::vector<double>& seconds) const override {
    for (std::size_t i = 1; i < marks_.size(); ++i) seconds.push_back(marks_[i] - marks_[i - 1]);
  }

 private:
  std::vector<double> marks_;
};

// Of each row.
std::vector<TokenIds> TextsOf(const at::Tensor& prompt) {
  const at::Tensor ids = prompt.to(at::kCPU).contiguous();
  std::vector<TokenIds> texts;
  for (int64_t b = 0; b < ids.size(0); ++b) {
    const auto* const row = ids.const_data_ptr<int64_t>() + b * ids.size(1);
    texts.emplace_back(row, row + ids.size(1));
  }
  return texts;
}

}  // namespace

Generation::Generation(std::unique_ptr<DecoderModel> decoder, int64_t vocab, Options options)
    : decoder_(std::move(decoder)),
      options_(std::move(options)),
      chooser_(options_.choice, vocab),
      chosen_(at::zeros({options_.most_new, options_.prompt.size(0)}, options_.prompt.options())),
      ids_(chosen_.to(at::kCPU)) {
  constexpr std::size_t kMostGaps = 1 << 20;  // more would allocate in a run
  gaps_.reserve(kMostGaps);
  if (options_.times == nullptr) options_.times = std::make_shared<HostTimes>(options_.most_new);
  if (options_.sampling) {
    sampler_.emplace(*options_.sampling, vocab, TextsOf(options_.prompt));
  } else if (!chosen_.is_cpu()) {
    device_chooser_.emplace(options_.choice, chosen_.size(0), chosen_.size(1), chosen_.device());
  }
}

void Generation::Sample(const at::Tensor& logits, const at::Tensor& ids) {
  const at::Tensor on_host = logits.to(at::kCPU).contiguous();
  at::Tensor drawn = ids_.select(0, made_);
  for (int64_t b = 0; b < drawn.numel(); ++b) {
    drawn.data_ptr<int64_t>()[b] =
        sampler_->Choose(static_cast<std::size_t>(b), on_host.const_data_ptr<float>() + b * on_host.size(1));
  }
  if (!ids.is_cpu()) ids.copy_(drawn);  // on the host they are one
}

bool Generation::Choose(const at::Tensor& logits) {
  logits_ = logits;
  const at::Tensor ids = chosen_.select(0, made_);
  if (sampler_) {
    Sample(logits, ids);
  } else if (device_chooser_) {
    device_chooser_->Choose(logits, made_, ids);
  } else {
    for (int64_t b = 0; b < ids.numel(); ++b) {
      ids.data_ptr<int64_t>()[b] = chooser_.Choose(logits.const_data_ptr<float>() + b * logits.size(1));
    }
  }
  options_.times->Mark();
  if (++made_ == chosen_.size(0)) return true;
  const TokenIds& stops = options_.stop_ids;
  return !stops.empty() && std::find(stops.begin(), stops.end(), ids.select(0, 0).item<int64_t>()) != stops.end();
}

void Generation::Run(const std::function<void()>& prompt_read) {
  const double start = Now();
  chooser_.Restart();
  if (sampler_) sampler_->Restart();
  options_.times->Restart();
  decoder_->Truncate(0);
  made_ = 0;
  bool ended = Choose(decoder_->Append(options_.prompt));
  prompt_read();
  while (!ended) ended = Choose(decoder_->AppendOne(chosen_.select(0, made_ - 1)));
  if (!chosen_.is_cpu()) ids_.copy_(chosen_);  // on the host they are one
  if (device_chooser_) device_chooser_->Check(made_);
  if (runs_++ > 0) return options_.times->Gaps(gaps_);
  first_seconds_ = Now() - start;
}

TokenIds Generation::Ids() const {
  const auto* const ids = ids_.const_data_ptr<int64_t>();
  return {ids, ids + made_ * ids_.size(1)};
}

at::Tensor Generation::Read() const {
  return at::cat({options_.prompt.to(at::kCPU), ids_.narrow(0, 0, std::max<int64_t>(made_ - 1, 0)).t()}, 1);
}

}  // namespace roofbench::models
