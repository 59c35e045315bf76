// SPDX-License-Identifier: Apache-2.0
#include "lib/run/spot_checks.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/aten/storage_type.h"
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

// Steps with new values are slower than with the same by this factor, or they do the same work; by the second one where
// operands and results take more memory than this, for a step may wait for what it finds in another cache.
constexpr double kSlower = 1.25;
constexpr double kMuchSlower = 1.5;
constexpr double kSmallBytes = 1 << 20;
// Single steps that are checked in the end, as long as they take at most this time, or share of the samples' time: a
// step that works by turns, or by chance, is right in some of them. One is checked whatever it takes, as one look is.
constexpr int kSingleSteps = 8;
// Steps of which each checks the last, and the share of that time that those before it may take.
constexpr int64_t kMostInARow = 8;
constexpr double kShareInARow = 0.1;
// The first ones check a step that another precedes even where there is no time for that in all.
constexpr int kPairs = 2;
constexpr double kMostSingleSeconds = 0.012;
// So many times as long for the first few, if parts can be checked, or a check of the whole took its share of that time
// once: on a busy machine each takes several times as long.
constexpr int kFewSingleSteps = 6;
constexpr double kPatience = 10;
constexpr double kSingleShare = 0.01;
// The same of looks.
constexpr double kMostLookSeconds = 0.004;
constexpr double kLookShare = 0.01;
// Steps that are samples of their own: these many with new values have to be slower, each by this factor.
constexpr std::size_t kFewestWatched = 4;
// Turns of steps with new values and with the same, and the steps of each that are timed, and that are not: fewer of
// long ones.
constexpr int kTurns = 5;
constexpr int64_t kFewestTurnSteps = 2;
constexpr int64_t kMostTurnSteps = 5;
constexpr double kMostTurnSeconds = 0.02;
constexpr double kCheapSeconds = 1e-3;  // of a step that is timed so in any case, where operands and results are small
constexpr int64_t kMostWarmUps = 30;
constexpr double kMostWarmUpSeconds = 5e-3;
// A look moves operands and results to other caches, or out of them: the step after it may wait for all of them, at the
// rate of a slow memory (16 MiB that were written into caches took 0.74 ms, and 1.23 ms after a look; two cores of a
// Xeon, 2026-11-28).
constexpr double kMovedBytesPerSecond = 4e9;
// The rate at which all elements of an operand change places, at least; larger ones exchange parts, unless this takes a
// part of the time of the check of the first result.
constexpr double kRotatedBytesPerSecond = 1e9;
constexpr double kShareOfCheck = 0.5;

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

// Inverts some of the last bits of fp32 numbers, or of none. Not of zeros, subnormal or infinite numbers, which could
// become others; narrower types have so few values that a table of all is a kernel.
void InvertLastBits(const at::Tensor& tensor, uint32_t mask) {
  if (!tensor.is_cpu() || !tensor.is_contiguous() || tensor.scalar_type() != at::kFloat) return;
  constexpr uint32_t kExponent = 0x7f800000;
  auto* const bits = static_cast<uint32_t*>(tensor.mutable_data_ptr());
  std::transform(bits, bits + tensor.numel(), bits, [mask](uint32_t one) {
    const uint32_t exponent = one & kExponent;
    return exponent == 0 || exponent == kExponent ? one : one ^ mask;
  });
}

// Every element takes the place of another, by two rotations, and has other last bits, so that a table of the values
// that were there at first does not have it; `inverted` has these bits by address. If not `is_new`, the second rotation
// takes back the first, and the bits are those of the start, so that the same memory is read and written.
void Rotate(const std::vector<at::Tensor>& tensors, std::mt19937_64& random, std::map<const void*, uint32_t>& inverted,
            bool is_new = true) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    const int64_t elements = tensor.numel();
    if (elements < 2) continue;
    const auto rotate = [&](int64_t by) {
      if (!tensor.is_cpu() || !tensor.is_contiguous()) {
        tensor.copy_(tensor.flatten().roll(by).view_as(tensor));
        return;
      }
      // On this thread alone: others may sleep.
      auto* const first = static_cast<std::byte*>(tensor.mutable_data_ptr());
      std::byte* const last = first + tensor.nbytes();
      const int64_t moved = by % elements * tensor.element_size();
      const std::vector<std::byte> end(last - moved, last);
      std::copy_backward(first, last - moved, last);
      std::copy(end.begin(), end.end(), first);
    };
    const int64_t by = 1 + Below(elements - 1, random);
    rotate(by);
    rotate(elements - by + (is_new ? 1 + Below(elements - 1, random) : 0));
    constexpr int64_t kMasks = 1 << 10;
    const uint32_t mask = is_new ? static_cast<uint32_t>(1 + Below(kMasks - 1, random)) : 0;
    InvertLastBits(tensor, mask ^ std::exchange(inverted[tensor.const_data_ptr()], mask));
  }
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

std::string Kept(double fresh, double same) {
  return absl::StrCat("a step takes ", HumanTime(fresh), " with new values of its operands and ", HumanTime(same),
                      " with those of the step before");
}

}  // namespace

SpotChecks::SpotChecks(const BuiltCase& built, std::function<const Case*()> next)
    : first_(built.first()),
      read_(built.read),
      first_check_seconds_(built.check_seconds),
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
  switch (amount) {
    case Amount::kAll:
      Rotate(one.changing(), random_, inverted_);
      break;
    case Amount::kParts:
      ExchangeParts(one.changing(), random_);
      break;
    case Amount::kFew:
      ExchangeFew(one.changing(), random_);
  }
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

bool SpotChecks::CanRotate(double step_seconds) const {
  const double most = std::max({kMostSingleSeconds, step_seconds, kShareOfCheck * first_check_seconds_});
  return BytesOf(first_.changing()) / kRotatedBytesPerSecond <= most;
}

void SpotChecks::CompareTurns(timing::Clock& clock, const timing::Step& step, std::size_t phases, double median) {
  if (next_() == nullptr || first_.changing().empty()) return;
  const bool is_small = BytesOf(WholeResult(first_)) + BytesOf(first_.changing()) <= kSmallBytes;
  const double factor = is_small ? kSlower : kMuchSlower;
  bool is_new = false;
  timing::SampleOptions options;
  options.min_samples = options.max_samples =
      std::max(kFewestTurnSteps, static_cast<int64_t>(std::min<double>(kMostTurnSteps, kMostTurnSeconds / median)));
  options.exact_samples = true;
  const bool rotates = CanRotate(median);
  timing::Exchanges few(rotates ? std::vector<timing::Exchanges::Operand>() : PiecesOf(first_));
  options.before_step = [&] {
    const Case& next = *next_();
    if (status_.ok() && is_small) status_ = Advised(std::exchange(watched_, SomeRows(next, random_)).Check());
    if (next.prepare) next.prepare();
    // Either way the same memory is read and written.
    few.Begin(1);
    if (!is_new) few.TakeBack();
    if (rotates) Rotate(next.changing(), random_, inverted_, is_new);
  };
  std::vector<double> of_new, of_same;
  const auto take = [&](bool with_new, std::vector<double>& seconds) {
    is_new = with_new;
    watched_ = {};
    // A step may do its work for some calls after it found new values.
    const auto most = static_cast<int64_t>(std::min<double>(kMostWarmUps, kMostWarmUpSeconds / median));
    options.warmup_iters = 1 + Below(1 + (with_new ? std::min(most, kMostTurnSteps) : most), random_);
    const timing::Samples taken = timing::TakeSamples(clock, step, static_cast<int>(phases), nullptr, options);
    seconds.insert(seconds.end(), taken.seconds.begin(), taken.seconds.end());
    return *std::min_element(seconds.begin(), seconds.end());
  };
  double fresh = 0;
  bool is_slower = true;
  for (int turn = 0; turn < kTurns && is_slower; ++turn) {
    // What a step reaches with new values is its time, whatever others take.
    fresh = take(/*with_new=*/true, of_new);
    is_slower = fresh >= factor * median;
    if (!is_slower) break;
    const double same = take(/*with_new=*/false, of_same);
    is_slower = fresh >= factor * same && fresh - same >= clock.FloorSeconds();
  }
  few.TakeBack();
  watched_ = {};
  if (!is_slower || !status_.ok()) return;
  // Not the median: a step may do its work in nearly half of them, by chance.
  if (const double same = timing::Quantile(of_same, 0.25); fresh >= factor * same) {
    depends_on_values_ = Kept(timing::Median(of_new), same);
  }
}

void SpotChecks::CompareWatched(const timing::Samples& samples) {
  const std::span<const double> seconds = samples.seconds;
  const auto is_new = [&](std::size_t i) { return std::find(changed_.begin(), changed_.end(), i) != changed_.end(); };
  std::vector<double> fresh, same;
  for (const std::size_t i : changed_) {
    if (i < 1 || i + 1 >= seconds.size() || is_new(i - 1) || is_new(i + 1)) continue;
    fresh.push_back(seconds[i]);
    same.push_back(std::max(seconds[i - 1], seconds[i + 1]));
    if (fresh.back() < kMuchSlower * same.back()) return;
  }
  if (fresh.size() < kFewestWatched) return;
  const double new_seconds = timing::Median(fresh);
  const double same_seconds = timing::Median(same);
  const double moved = (BytesOf(WholeResult(first_)) + BytesOf(first_.changing())) / kMovedBytesPerSecond;
  if (new_seconds - same_seconds > moved) depends_on_values_ = Kept(new_seconds, same_seconds);
}

absl::Status SpotChecks::CheckSingleSteps(timing::Clock& clock, double sample_seconds, double step_seconds,
                                          double& fresh_seconds) {
  fresh_seconds = std::numeric_limits<double>::infinity();
  const bool takes_all = CanRotate(step_seconds);
  const double begin = hardware::WallSeconds();
  const auto taken = [&] { return hardware::WallSeconds() - begin; };
  const double most = std::max(kMostSingleSeconds, kSingleShare * sample_seconds);
  const double in_a_row = kShareInARow * most / kSingleSteps / step_seconds;
  double fastest_check = std::min(first_check_seconds_, check_seconds_);
  timing::Exchanges exchanges(PiecesOf(first_));
  for (int step = 1; step <= kSingleSteps; ++step) {
    OverwrittenElement element(first_, random_);
    // A step that looks whether its result was overwritten cannot rely on that.
    const Amount amount = step % 2 == 0 ? Amount::kFew : takes_all && step % 4 == 1 ? Amount::kAll : Amount::kParts;
    Change(first_, amount, first_.changing().empty() || Below(2, random_) == 0);
    timing::IgnoredPhases ignored;
    if (first_.prepare) first_.prepare();
    // Where no operand changes, the result may be that of a step of its own.
    const std::vector<at::Tensor> results = first_.changing().empty() ? std::vector<at::Tensor>() : WholeResult(first_);
    const int64_t fewest = step <= kPairs && step_seconds < most ? 2 : 1;
    const auto longest = std::max(fewest, static_cast<int64_t>(std::min<double>(in_a_row, kMostInARow)));
    const int64_t steps = fewest + Below(1 + longest - fewest, random_);
    if (steps > 1) exchanges.Begin(steps);
    for (int64_t i = 1; i <= steps; ++i) {
      if (i > 1) exchanges.Next();
      if (i > 1 && i == steps) element.Overwrite();
      const double step_begin = clock.HostSeconds();
      first_.step(ignored);
      const double seconds = clock.HostSeconds() - step_begin;
      if (i == 1 && (amount == Amount::kAll || !takes_all)) fresh_seconds = std::min(fresh_seconds, seconds);
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
      fastest_check = std::min(fastest_check, check_seconds_);
    }
    exchanges.TakeBack();
    status.Update(left_.CheckUnchanged());
    const bool are_fast = fastest_check + step_seconds <= most / kSingleSteps;
    const bool are_few = step < kFewSingleSteps && (are_fast || CanCheckPart(first_));
    if (!status.ok() || taken() * (step + 1) / step > (are_few ? kPatience * most : most)) return status;
  }
  return absl::OkStatus();
}

void SpotChecks::Finish(timing::Clock& clock, const timing::Step& step, std::size_t phases,
                        const timing::Samples& samples) {
  watched_ = {};  // of the look after the last chunk, since which no step has run
  change_at_ = kNever;
  if (samples.steps_per_sample == 1) CompareWatched(samples);
  const double median = timing::Median(samples.seconds);
  double fresh_seconds = 0;
  if (status_.ok()) status_ = CheckSingleSteps(clock, SampledSeconds(samples), median, fresh_seconds);
  const double bytes = BytesOf(WholeResult(first_)) + BytesOf(first_.changing());
  const bool is_slower = bytes <= kSmallBytes ? fresh_seconds > kSlower * median
                                              : fresh_seconds > kMuchSlower * median + bytes / kMovedBytesPerSecond;
  // The results of its steps are checked, too.
  const bool is_cheap = bytes <= kSmallBytes && median <= kCheapSeconds;
  if (status_.ok() && (is_slower || is_cheap) && depends_on_values_.empty()) CompareTurns(clock, step, phases, median);
  if (!status_.ok() || depends_on_values_.empty()) return;
  if (first_.prepare || !CanRotate(median)) status_ = absl::DataLossError(absl::StrCat(depends_on_values_, kAdvice));
}

void SpotChecks::Renew() {
  const Case* const next = next_();
  if (!status_.ok() || next == nullptr) return;
  if (renewals_.IsLookDue()) status_ = Advised(SomeRows(*next, random_).Check());
  Rotate(next->changing(), random_, inverted_);
}

}  // namespace roofbench
