// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/generation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "lib/models/size.h"

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

// The length of each prompt.
std::vector<int64_t> LengthsOf(const Generation::Options& options) {
  if (!options.lengths.empty()) return options.lengths;
  return std::vector<int64_t>(static_cast<std::size_t>(options.prompt.size(0)), options.prompt.size(1));
}

std::vector<TokenIds> TextsOf(const at::Tensor& prompts, const std::vector<int64_t>& lengths) {
  const at::Tensor ids = prompts.to(at::kCPU).contiguous();
  const auto* next = ids.const_data_ptr<int64_t>();
  std::vector<TokenIds> texts;
  for (const int64_t length : lengths) {
    texts.emplace_back(next, next + length);
    next += length;
  }
  return texts;
}

}  // namespace

Generation::Generation(std::unique_ptr<DecoderModel> decoder, int64_t vocab, Options options)
    : decoder_(std::move(decoder)),
      options_(std::move(options)),
      chooser_(options_.choice, vocab),
      lengths_(LengthsOf(options_)),
      chosen_(at::zeros({options_.most_new, batch()}, options_.prompt.options())),
      ids_(chosen_.to(at::kCPU)),
      some_(at::zeros({batch()}, options_.prompt.options())),
      made_of_(lengths_.size()) {
  constexpr std::size_t kMostGaps = 1 << 20;  // more would allocate in a run
  gaps_.reserve(kMostGaps);
  // The logits of sequences that end before others.
  if (!options_.stop_ids.empty() && batch() > 1) {
    kept_ = at::zeros({batch(), vocab}, options_.prompt.options().dtype(at::kFloat));
  }
  if (options_.times == nullptr) options_.times = std::make_shared<HostTimes>(options_.most_new);
  if (options_.beams.beams > 1) {
    TORCH_CHECK(batch() == 1, "beam search takes a single prompt");
    search_.emplace(options_.beams, vocab, options_.most_new, options_.stop_ids);
  } else if (options_.draft.decoder != nullptr) {
    TORCH_CHECK(batch() == 1 && !options_.sampling && options_.choice.top_k == 1,
                "a draft requires a single prompt and top_k 1");
    speculation_.emplace(options_.draft, *decoder_, vocab);
  } else if (options_.sampling) {
    sampler_.emplace(*options_.sampling, vocab, TextsOf(options_.prompt, lengths_));
  } else if (!chosen_.is_cpu()) {
    device_chooser_.emplace(options_.choice, chosen_.size(0), chosen_.size(1), chosen_.device());
  }
}

bool Generation::IsStop(int64_t id) const {
  return std::ranges::find(options_.stop_ids, id) != options_.stop_ids.end();
}

const at::Tensor& Generation::ReadPrompts() {
  if (options_.lengths.empty()) return decoder_->Append(options_.prompt);
  std::vector<Piece> pieces;
  for (int64_t b = 0; b < batch(); ++b) pieces.push_back({b, lengths_[Size(b)]});
  return decoder_->AppendTo(pieces, options_.prompt);
}

// AppendOne, which can be recorded, for sequences of one length.
const at::Tensor& Generation::Step() {
  if (options_.lengths.empty() && next_.size(0) == batch()) return decoder_->AppendOne(next_);
  std::vector<Piece> pieces;
  for (const int64_t sequence : active_) pieces.push_back({sequence, 1});
  return decoder_->AppendTo(pieces, next_);
}

void Generation::Sample(const at::Tensor& logits, const at::Tensor& ids) {
  const at::Tensor on_host = logits.to(at::kCPU).contiguous();
  at::Tensor drawn = ids.is_cpu() ? ids : ids_.select(0, steps_).narrow(0, 0, ids.numel());
  for (int64_t i = 0; i < drawn.numel(); ++i) {
    drawn.data_ptr<int64_t>()[i] =
        sampler_->Choose(Size(active_[Size(i)]), on_host.const_data_ptr<float>() + i * on_host.size(1));
  }
  if (!ids.is_cpu()) ids.copy_(drawn);
}

void Generation::Choose(const at::Tensor& logits) {
  const bool all = logits.size(0) == batch();
  const at::Tensor row = chosen_.select(0, steps_);
  const at::Tensor ids = all ? row : some_.narrow(0, 0, logits.size(0));
  if (sampler_) {
    Sample(logits, ids);
  } else if (device_chooser_) {
    device_chooser_->Choose(logits, steps_, ids, all ? std::nullopt : std::make_optional(active_ids_));
  } else {
    for (int64_t i = 0; i < ids.numel(); ++i) {
      ids.data_ptr<int64_t>()[i] = chooser_.Choose(logits.const_data_ptr<float>() + i * logits.size(1));
    }
  }
  if (!all) row.index_copy_(0, active_ids_, ids);
  options_.times->Mark();
  ++steps_;
  next_ = ids;
  logits_ = logits;
  if (!options_.stop_ids.empty()) EndStopped(logits, ids);
}

void Generation::EndStopped(const at::Tensor& logits, const at::Tensor& ids) {
  const at::Tensor on_host = ids.to(at::kCPU);  // waits
  std::vector<int64_t> left;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < on_host.numel(); ++i) {
    const int64_t sequence = active_[Size(i)];
    made_of_[Size(sequence)] = steps_;
    if (IsStop(on_host.const_data_ptr<int64_t>()[i])) continue;
    left.push_back(sequence);
    rows.push_back(i);
  }
  if (left.size() == active_.size()) return;
  if (batch() > 1) Keep(logits);
  next_ = ids.index_select(0, at::tensor(rows, ids.options()));
  SetActive(std::move(left));
}

void Generation::Keep(const at::Tensor& logits) { kept_.index_copy_(0, active_ids_, logits); }

void Generation::SetActive(std::vector<int64_t> sequences) {
  active_ = std::move(sequences);
  active_ids_ = at::tensor(active_, options_.prompt.options());
}

// Each beam reads the prompt, as in transformers.
void Generation::SearchBeams(const std::function<void()>& prompt_read) {
  search_->Restart();
  bool continues =
      search_->Advance(decoder_->Append(options_.prompt.view({1, -1}).expand({options_.beams.beams, -1}).contiguous()));
  options_.times->Mark();
  prompt_read();
  const at::TensorOptions type = options_.prompt.options();
  while (continues) {
    decoder_->Reorder(search_->parents());
    continues = search_->Advance(decoder_->AppendOne(at::tensor(search_->tokens(), type)));
    options_.times->Mark();
  }
  const TokenIds& best = search_->Best();
  std::ranges::copy(best, ids_.data_ptr<int64_t>());
  made_of_.front() = static_cast<int64_t>(best.size());
  steps_ = search_->steps();
  logits_ = search_->BestLogits().unsqueeze(0);
}

void Generation::Speculate(const std::function<void()>& prompt_read) {
  int64_t* const ids = ids_.data_ptr<int64_t>();
  // Appends `token` and returns whether the text continues.
  const auto append = [&](int64_t token) {
    ids[steps_++] = token;
    return !IsStop(token) && steps_ < options_.most_new;
  };
  logits_ = decoder_->Append(options_.prompt);
  speculation_->ReadPrompt(options_.prompt);
  bool continues = append(chooser_.Choose(logits_.to(at::kCPU).const_data_ptr<float>()));
  options_.times->Mark();
  prompt_read();
  while (continues) {
    const TokenIds& next = speculation_->Advance(ids[steps_ - 1], options_.most_new - steps_);
    std::size_t read = 0;
    while (continues && read < next.size()) continues = append(next[read++]);
    logits_ = speculation_->LogitsOf(static_cast<int64_t>(read) - 1);
    options_.times->Mark();
  }
  made_of_.front() = steps_;
}

void Generation::Run(const std::function<void()>& prompt_read, int64_t measurement) {
  const double start = Now();
  Generate(prompt_read);
  if (first_seconds_ == 0) first_seconds_ = Now() - start;
  if (measurement == 0) return;
  if (measurement != measurement_) {
    measurement_ = measurement;
    samples_ = 0;
    gaps_.clear();
  }
  options_.times->Gaps(gaps_);
  ++samples_;
}

void Generation::Generate(const std::function<void()>& prompt_read) {
  chooser_.Restart();
  if (sampler_) sampler_->Restart();
  options_.times->Restart();
  decoder_->Truncate(0);
  steps_ = 0;
  if (search_ || speculation_) {
    return search_ ? SearchBeams(prompt_read) : Speculate(prompt_read);
  }
  if (active_.size() != lengths_.size()) {
    std::vector<int64_t> all(lengths_.size());
    std::iota(all.begin(), all.end(), 0);
    SetActive(std::move(all));
  }
  Choose(ReadPrompts());
  prompt_read();
  while (!active_.empty() && steps_ < options_.most_new) Choose(Step());
  for (const int64_t sequence : active_) made_of_[Size(sequence)] = steps_;
  // Unless some sequences ended early, their logits are the last ones.
  if (logits_.size(0) < batch()) {
    if (logits_.size(0) == active_ids_.size(0)) Keep(logits_);  // no sequence ended at this step
    logits_ = kept_;
  }
  if (!chosen_.is_cpu()) ids_.copy_(chosen_);  // on the host they share memory
  if (device_chooser_) device_chooser_->Check(steps_);
}

double Generation::gap_seconds() const {
  return std::accumulate(gaps_.begin(), gaps_.end(), 0.0) / static_cast<double>(samples_);
}

TokenIds Generation::Ids(int64_t sequence) const {
  TokenIds ids;
  const auto* const chosen = ids_.const_data_ptr<int64_t>() + sequence;
  for (int64_t i = 0; i < made_of_[Size(sequence)]; ++i) ids.push_back(chosen[i * batch()]);
  return ids;
}

bool Generation::HasStopped(int64_t sequence) const {
  const TokenIds ids = Ids(sequence);
  return !ids.empty() && IsStop(ids.back());
}

std::vector<at::Tensor> Generation::Read() const {
  std::vector<at::Tensor> texts;
  std::vector<TokenIds> prompts = TextsOf(options_.prompt, lengths_);
  bool is_ragged = !options_.lengths.empty();
  for (int64_t b = 0; b < batch(); ++b) {
    TokenIds& text = prompts[Size(b)];
    const TokenIds ids = Ids(b);
    if (!ids.empty()) text.insert(text.end(), ids.begin(), ids.end() - 1);
    texts.push_back(at::tensor(text, at::kLong).unsqueeze(0));
    is_ragged = is_ragged || texts.back().size(1) != texts.front().size(1);
  }
  return is_ragged ? texts : std::vector{at::cat(texts)};
}

}  // namespace roofbench::models
