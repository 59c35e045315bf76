// SPDX-License-Identifier: Apache-2.0
#include "lib/run/spot_checks.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"
#include "lib/hardware/roofs/bursts.h"
#include "lib/suite/check.h"
#include "lib/suite/sampled_rows.h"
#include "lib/timing/exchanges.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

using timing::Below;

// Of a row of the changing operands, in two pieces: enough for the sum of a long row to change by more than rounding.
// Less of large operands, whose exchange takes as long as a step.
constexpr int64_t kExchanged = 8;
constexpr int64_t kExchangedOfLarge = 64;
constexpr std::size_t kLargeBytes = std::size_t{16} << 20;
// Bytes that are copied at a time.
constexpr int64_t kBlockBytes = 1 << 20;
// Elements that are exchanged in a row, of operands that have none.
constexpr int64_t kExchangedElements = 32;

// Steps with new values are slower than with the same by this factor, or they do the same work.
constexpr double kSlower = 1.25;
// Timed in turns, where they take at most this time, or share of the samples' time.
constexpr int64_t kPairs = 12;
constexpr int64_t kFewestPairs = 8;
constexpr double kMostSeconds = 0.015;
constexpr double kShare = 0.02;
// Bytes of operands and results, beyond which they are not copied for that; and how often each is.
constexpr double kMostCopied = 1 << 20;
constexpr double kCopies = 5;
// Of one look at a result, next to the bytes that are copied.
constexpr double kLookSeconds = 2e-4;
constexpr double kCopiedBytesPerSecond = 1e10;
// Single steps that are checked in the end, as long as they take at most this time, or share of the samples' time: a
// step that works by turns, or by chance, is right in some of them. One is checked whatever it takes, as one look is.
constexpr int kSingleSteps = 8;
// Steps of which each checks the last, and the share of that time that those before it may take.
constexpr int64_t kMostInARow = 8;
constexpr double kShareInARow = 0.1;
constexpr double kMostSingleSeconds = 0.012;
// So many times as long for the first few, if parts can be checked: on a busy machine each takes several times as long.
constexpr int kFewSingleSteps = 6;
constexpr double kPatience = 10;
constexpr double kSingleShare = 0.01;
// The same of looks.
constexpr double kMostLookSeconds = 0.004;
constexpr double kLookShare = 0.01;
// Steps that are samples of their own: these many with new values have to be slower, each by this factor.
constexpr std::size_t kFewestWatched = 4;
constexpr double kMuchSlower = 1.5;
// Turns of steps with new values and with the same, and the steps of each that are timed, and that are not.
constexpr int kTurns = 5;
constexpr int64_t kTurnSteps = 5;
constexpr int64_t kFewestWarmUps = 3;
constexpr int64_t kMostWarmUps = 30;
constexpr double kMostWarmUpSeconds = 5e-3;
// A look moves operands and results to other caches, or out of them: the step after it may wait for all of them, at the
// rate of a slow memory (16 MiB that were written into caches took 0.74 ms, and 1.23 ms after a look; two cores of a
// Xeon, 2026-11-28).
constexpr double kMovedBytesPerSecond = 4e9;

constexpr const char* kAdvice =
    "; a step has to do all of its work in every call; for what it may prepare once, see .Changing "
    "(docs/your_family.md)";

double SampledSeconds(const timing::Samples& samples) {
  double seconds = 0;
  for (const timing::Chunk& chunk : samples.chunks) {
    seconds += chunk.median_seconds * static_cast<double>(chunk.samples);
  }
  return seconds * static_cast<double>(samples.steps_per_sample);
}

absl::Status Advised(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::DataLossError(absl::StrCat("after it was right at first: ", status.message(), kAdvice));
}

// Exchanges two pieces of each row.
void Exchange(const at::Tensor& rows, int64_t length, std::mt19937_64& random) {
  const timing::Places places = timing::DrawPlaces(rows.size(-1), length, random);
  const int64_t row_bytes = rows.size(0) > 0 ? static_cast<int64_t>(rows.nbytes()) / rows.size(0) : 0;
  for (const at::Tensor& block : rows.split(std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, row_bytes)))) {
    at::Tensor one = block.narrow(-1, places.one, length);
    at::Tensor other = block.narrow(-1, places.other, length);
    const at::Tensor kept = one.clone();
    one.copy_(other);
    other.copy_(kept);
  }
}

void ExchangeParts(const std::vector<at::Tensor>& tensors, std::mt19937_64& random) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.dim() == 0 || tensor.numel() == 0) continue;
    const int64_t part = tensor.nbytes() > kLargeBytes ? kExchangedOfLarge : kExchanged;
    const int64_t row = part * kExchangedElements;
    const bool in_rows = tensor.dim() == 1 && tensor.is_contiguous() && tensor.numel() % row == 0;
    const at::Tensor rows = in_rows ? tensor.view({-1, row}) : tensor.dim() == 1 ? tensor.unsqueeze(0) : tensor;
    if (rows.size(-1) < 2) continue;
    Exchange(rows, std::max<int64_t>(1, rows.size(-1) / part / 2), random);
  }
}

void ExchangeFew(const std::vector<at::Tensor>& tensors, std::mt19937_64& random) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() < 2 || !tensor.is_contiguous()) continue;
    Exchange(tensor.view({1, -1}), timing::FewOf(tensor.numel()), random);
  }
}

std::vector<at::Tensor> Clones(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> clones;
  for (const at::Tensor& tensor : tensors) clones.push_back(tensor.detach().clone());
  return clones;
}

void Copy(const std::vector<at::Tensor>& from, std::vector<at::Tensor> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

// The changing operands of a case of which single elements can change places, unless they are prepared anew.
std::vector<at::Tensor> Exchangeable(const Case& one) {
  if (one.prepare) return {};
  const std::vector<at::Tensor> results = WholeResult(one);
  std::vector<at::Tensor> tensors = one.changing();
  std::erase_if(tensors, [&](const at::Tensor& tensor) {
    return SharesMemory(tensor, results) || !tensor.is_cpu() || !tensor.is_contiguous() || tensor.numel() < 2;
  });
  return tensors;
}

std::vector<timing::Exchanges::Operand> PiecesOf(const Case& one) {
  std::vector<timing::Exchanges::Operand> pieces;
  for (const at::Tensor& tensor : Exchangeable(one)) {
    pieces.push_back({static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.element_size(), tensor.numel()});
  }
  return pieces;
}

// The rows of x in which the two pieces begin, if every row of a result belongs to one of x.
std::vector<RowRange> RowsOf(const timing::Exchanges::Pair& pair, const at::Tensor& x, const at::Tensor& result) {
  const auto rows_of = [](const at::Tensor& tensor) { return tensor.dim() > 1 ? tensor.numel() / tensor.size(-1) : 0; };
  const int64_t rows = rows_of(x);
  if (rows == 0 || (result.dim() == 1 ? result.numel() : rows_of(result)) != rows) return {};
  const int64_t length = x.size(-1);
  return {{pair.one / length, 1}, {pair.other / length, 1}};
}

double Bytes(const std::vector<at::Tensor>& tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

absl::Status Kept(double fresh, double same) {
  return absl::DataLossError(absl::StrCat("a step takes ", HumanTime(fresh), " with new values of its operands and ",
                                          HumanTime(same), " with those of the step before", kAdvice));
}

}  // namespace

SpotChecks::SpotChecks(const BuiltCase& built, std::function<const Case*()> next)
    : first_(built.first()),
      read_(built.read),
      check_seconds_(built.check_seconds),
      next_(std::move(next)),
      random_(std::random_device()()),
      left_(built.changing) {}

void SpotChecks::Restart() {
  changed_.clear();
  change_at_ = kNever;
  chunks_ = 0;
  next_look_ = 0;
  look_seconds_ = 0;
}

void SpotChecks::Change(const Case& one, Amount amount, bool overwrite) {
  amount == Amount::kFew ? ExchangeFew(one.changing(), random_) : ExchangeParts(one.changing(), random_);
  watched_ = SomeRows(one, random_);
  if (overwrite) watched_.Invalidate();
  left_ = SampleOfChanging(one, random_);
}

void SpotChecks::Look(const timing::Samples& samples) {
  const double begin = hardware::WallSeconds();
  LookAndChange(samples);
  look_seconds_ += hardware::WallSeconds() - begin;
}

void SpotChecks::LookAndChange(const timing::Samples& samples) {
  status_.Update(Advised(std::exchange(watched_, {}).Check()));
  if (element_) status_.Update(Advised(element_->Check()));
  status_.Update(CheckExchanged());
  status_.Update(left_.CheckUnchanged());
  element_.reset();
  change_at_ = kNever;
  const int64_t steps = std::exchange(steps_, 0);
  const Case* const next = next_();
  if (!status_.ok() || next == nullptr) return;
  const double most = std::max(kMostLookSeconds, kLookShare * SampledSeconds(samples));
  if (look_seconds_ <= most) {
    element_.emplace(*next, random_);
    if (next->reference_rows && steps > 0) exchanges_.emplace(PiecesOf(*next));
    change_at_ = 1 + Below(std::max<int64_t>(1, steps), random_);
  }
  if (chunks_++ < next_look_) return;
  next_look_ = chunks_ + Below(chunks_ + 1, random_);
  const auto looks = static_cast<double>(changed_.size());
  if (looks > 0 && look_seconds_ * (looks + 1) / looks > most) return;
  Change(*next, Amount::kParts, /*overwrite=*/true);
  changed_.push_back(samples.seconds.size());
}

absl::Status SpotChecks::CheckExchanged() {
  if (!exchanges_) return absl::OkStatus();
  timing::Exchanges exchanges = *std::exchange(exchanges_, std::nullopt);
  const Case& one = element_->built();
  const std::vector<at::Tensor> results = WholeResult(one), operands = Exchangeable(one);
  absl::Status status;
  for (const timing::Exchanges::Pair& pair : exchanges.InEffect()) {
    const auto operand = static_cast<std::size_t>(pair.operand);
    if (!status.ok() || operand >= operands.size()) break;
    status = Advised(SomeRows(one, RowsOf(pair, operands[operand], results.front())).Check());
  }
  exchanges.TakeBack();
  return status;
}

absl::Status SpotChecks::CompareTurns(timing::Clock& clock, const timing::Step& step, std::size_t phases,
                                      double step_seconds) {
  std::vector<timing::Exchanges::Operand> pieces = PiecesOf(first_);
  if (pieces.empty()) return absl::OkStatus();
  timing::Exchanges exchanges(std::move(pieces));
  timing::SampleOptions options;
  options.min_samples = options.max_samples = kTurnSteps;
  options.exact_samples = true;
  bool is_new = false;
  // Either way the same memory is read and written.
  options.before_step = [&] {
    exchanges.Begin(1);
    if (!is_new) exchanges.TakeBack();
  };
  const auto seconds_of = [&](bool with_new) {
    is_new = with_new;
    // A step may do its work for some calls after it found new values.
    const double most = std::min<double>(kMostWarmUps, kMostWarmUpSeconds / step_seconds);
    options.warmup_iters = kFewestWarmUps + Below(1 + static_cast<int64_t>(most), random_);
    return timing::Median(timing::TakeSamples(clock, step, static_cast<int>(phases), nullptr, options).seconds);
  };
  std::vector<double> of_same, of_new;
  absl::Status status;
  for (int turn = 0; turn < kTurns; ++turn) {
    of_same.push_back(seconds_of(false));
    of_new.push_back(seconds_of(true));
    const double slower = of_new.back() - of_same.back();
    if (of_new.back() < kMuchSlower * of_same.back() || slower < clock.FloorSeconds()) break;
    if (turn + 1 == kTurns) status = Kept(timing::Median(of_new), timing::Median(of_same));
  }
  exchanges.TakeBack();
  return status;
}

absl::Status SpotChecks::CompareTimes(timing::Clock& clock, const timing::Step& step, std::size_t phases,
                                      const timing::Samples& samples) {
  const double median = timing::Median(samples.seconds);
  if (next_() == nullptr) return absl::OkStatus();
  const double copied = Bytes(WholeResult(first_)) + Bytes(first_.changing());
  if (copied > kMostCopied) return absl::OkStatus();
  const double pair_seconds = 2 * (median + kCopies * copied / kCopiedBytesPerSecond + kLookSeconds);
  const double most = std::max(kMostSeconds, kShare * SampledSeconds(samples));
  const int64_t pairs = std::min(kPairs, static_cast<int64_t>(most / pair_seconds));
  if (pairs < kFewestPairs) return absl::OkStatus();
  // Before either kind of step the same memory is read and written in the same order: a step that finds its operands in
  // another cache, or modified, takes several times as long.
  const std::vector<at::Tensor> same = Clones(first_.changing()), fresh = Clones(first_.changing());
  const std::vector<at::Tensor> kept = Clones(WholeResult(first_)), wrong = Clones(WholeResult(first_));
  Invalidate(wrong);
  std::vector<bool> is_new;
  std::size_t steps = 0;
  absl::Status status;
  timing::SampleOptions in_turns;
  in_turns.warmup_iters = 2;
  in_turns.min_samples = in_turns.max_samples = 2 * pairs;
  in_turns.exact_samples = true;
  in_turns.before_step = [&] {
    const Case& next = *next_();
    if (status.ok()) status = std::exchange(watched_, SomeRows(next, random_)).Check();
    if (next.prepare) next.prepare();
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> changing = next.changing(), results = WholeResult(next);
    Copy(changing, same);
    Copy(changing, fresh);
    ExchangeParts(fresh, random_);
    Copy(results, kept);
    const bool new_values = is_new.at(steps++);
    Copy(new_values ? fresh : same, changing);
    Copy(new_values ? wrong : kept, results);
  };
  // What is by chance so once is not so twice.
  double new_seconds = 0;
  double same_seconds = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    is_new.clear();
    for (int64_t pair = 0; pair <= pairs; ++pair) {  // the first: warm-up
      const bool new_first = Below(2, random_) == 0;
      is_new.insert(is_new.end(), {new_first, !new_first});
    }
    steps = 0;
    watched_ = {};
    const std::vector<double> seconds =
        timing::TakeSamples(clock, step, static_cast<int>(phases), nullptr, in_turns).seconds;
    if (!status.ok()) return Advised(status);
    std::vector<double> of_new, of_same;
    int64_t slower = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) (is_new[i + 2] ? of_new : of_same).push_back(seconds[i]);
    for (std::size_t i = 0; i < of_new.size(); ++i) slower += of_new[i] > of_same[i] ? 1 : 0;
    new_seconds = timing::Median(of_new);
    same_seconds = timing::Median(of_same);
    const bool is_slower = slower >= pairs - 1 && new_seconds >= kSlower * same_seconds;
    if (!is_slower || new_seconds - same_seconds < clock.FloorSeconds()) return absl::OkStatus();
  }
  return Kept(new_seconds, same_seconds);
}

absl::Status SpotChecks::CompareWatched(const timing::Samples& samples) const {
  const std::span<const double> seconds = samples.seconds;
  const auto is_new = [&](std::size_t i) { return std::find(changed_.begin(), changed_.end(), i) != changed_.end(); };
  std::vector<double> fresh, same;
  for (const std::size_t i : changed_) {
    if (i < 1 || i + 1 >= seconds.size() || is_new(i - 1) || is_new(i + 1)) continue;
    fresh.push_back(seconds[i]);
    same.push_back(std::max(seconds[i - 1], seconds[i + 1]));
    if (fresh.back() < kMuchSlower * same.back()) return absl::OkStatus();
  }
  if (fresh.size() < kFewestWatched) return absl::OkStatus();
  const double new_seconds = timing::Median(fresh);
  const double same_seconds = timing::Median(same);
  const double moved = (Bytes(WholeResult(first_)) + Bytes(first_.changing())) / kMovedBytesPerSecond;
  return new_seconds - same_seconds > moved ? Kept(new_seconds, same_seconds) : absl::OkStatus();
}

absl::Status SpotChecks::CheckSingleSteps(timing::Clock& clock, double sample_seconds, double step_seconds,
                                          double& fresh_seconds) {
  fresh_seconds = std::numeric_limits<double>::infinity();
  const double begin = hardware::WallSeconds();
  const auto taken = [&] { return hardware::WallSeconds() - begin; };
  const double most = std::max(kMostSingleSeconds, kSingleShare * sample_seconds);
  const double in_a_row = kShareInARow * most / kSingleSteps / step_seconds;
  timing::Exchanges exchanges(PiecesOf(first_));
  for (int step = 1; step <= kSingleSteps; ++step) {
    OverwrittenElement element(first_, random_);
    // A step that looks whether its result was overwritten cannot rely on that.
    Change(first_, step % 2 == 0 ? Amount::kFew : Amount::kParts, first_.changing().empty() || Below(2, random_) == 0);
    timing::IgnoredPhases ignored;
    if (first_.prepare) first_.prepare();
    // Where no operand changes, the result may be that of a step of its own.
    const std::vector<at::Tensor> results = first_.changing().empty() ? std::vector<at::Tensor>() : WholeResult(first_);
    const int64_t steps = in_a_row < 2 ? 1 : 1 + Below(std::min(kMostInARow, static_cast<int64_t>(in_a_row)), random_);
    if (steps > 1) exchanges.Begin(steps);
    for (int64_t i = 1; i <= steps; ++i) {
      if (i > 1) exchanges.Next();
      if (i > 1 && i == steps) element.Overwrite();
      const double step_begin = clock.HostSeconds();
      first_.step(ignored);
      fresh_seconds = std::min(fresh_seconds, clock.HostSeconds() - step_begin);
    }
    const OperandSample left_by_step(results, random_);
    WholeResult(first_);
    if (!left_by_step.CheckUnchanged().ok()) {
      return absl::DataLossError(
          absl::StrCat("the result changed when it was read: its work is not in the step", kAdvice));
    }
    DrawSampledRows(random_);
    absl::Status status = read_.CheckUnchanged();
    status.Update(Advised(element.Check()));
    if (taken() + check_seconds_ > most && CanCheckPart(first_)) {
      status.Update(Advised(watched_.Check()));
      status.Update(Advised(CheckPart(first_, random_)));
    } else {
      const double before = taken();
      status.Update(Advised(CheckCase(first_)));
      check_seconds_ = taken() - before;
    }
    exchanges.TakeBack();
    status.Update(left_.CheckUnchanged());
    const bool are_few = step < kFewSingleSteps && CanCheckPart(first_);
    if (!status.ok() || taken() * (step + 1) / step > (are_few ? kPatience * most : most)) return status;
  }
  return absl::OkStatus();
}

void SpotChecks::Finish(timing::Clock& clock, const timing::Step& step, std::size_t phases,
                        const timing::Samples& samples) {
  watched_ = {};  // of the look after the last chunk, since which no step has run
  change_at_ = kNever;
  if (samples.steps_per_sample == 1) status_ = CompareWatched(samples);
  if (status_.ok()) status_ = CompareTimes(clock, step, phases, samples);
  const double median = timing::Median(samples.seconds);
  double fresh_seconds = 0;
  if (status_.ok()) status_ = CheckSingleSteps(clock, SampledSeconds(samples), median, fresh_seconds);
  if (status_.ok() && fresh_seconds > kMuchSlower * median) status_ = CompareTurns(clock, step, phases, median);
}

}  // namespace roofbench
