// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/gpu_roof_meter.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "lib/kernels/simd/split_mix.h"

namespace roofbench::hardware {
namespace {

constexpr double kLine = 64;
// The two buffers together are sixteen times the L2, as the clones of a cold case are, and each has at least
// kLeastBuffer bytes, so that a launch and the last blocks of a pass, which leave multiprocessors idle, cost less than
// a hundredth of it.
constexpr double kBufferL2s = 8;
constexpr double kLeastBuffer = 2e9;
// At random, a line would outlive this many fills of the L2 once in 55 times.
constexpr double kDisplacingL2s = 4;
// An idle device takes this long to reach its clocks.
constexpr double kWarmUpSeconds = 0.2;
constexpr int kMostWarmUps = 10000;       // if the clock does not advance
constexpr double kMostMemoryShare = 0.1;  // of the device, for each buffer
constexpr double kFirstPace = 100e9;      // bytes/s; the first measurement refines it
constexpr double kLeastBytes = 1 << 20;   // of a pass
constexpr double kMostRepeats = 1e6;
constexpr std::size_t kFillWords = 1 << 20;
constexpr std::size_t kCheckWords = (1 << 17) + 8 * 13;  // 64-bit; not a multiple of a block's share

std::size_t InLines(double bytes) { return static_cast<std::size_t>(bytes / kLine) * static_cast<std::size_t>(kLine); }

// Bytes/s of traffic that the shares reach together where each alone reaches `pace`.
double MixedPace(const StreamShares& shares, const std::array<double, kStreamKinds.size()>& pace) {
  double seconds_per_byte = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] > 0) seconds_per_byte += shares[i] / (pace[i] > 0 ? pace[i] : kFirstPace);
  }
  return seconds_per_byte > 0 ? 1 / seconds_per_byte : 0;
}

// Zeros draw less power than data, and GPUs run faster on them.
std::vector<uint64_t> RandomWords(std::size_t count) {
  std::vector<uint64_t> words(count);
  std::ranges::generate(words, kernels::SplitMix64());
  return words;
}

}  // namespace

GpuRoofMeter::GpuRoofMeter(GpuStreams& streams, double l2_bytes, double memory_bytes)
    : RoofMeter(/*roof_by_roof=*/true), streams_(streams), l2_bytes_(l2_bytes), memory_bytes_(memory_bytes) {}

GpuRoofMeter::~GpuRoofMeter() {
  for (std::byte* memory : {first_, second_, sum_}) {
    if (memory != nullptr) streams_.Free(memory);
  }
}

bool GpuRoofMeter::MakeBuffers() {
  if (tried_) return fault_.empty();
  tried_ = true;
  double bytes = std::min(std::max(kBufferL2s * l2_bytes_, kLeastBuffer), kMostMemoryShare * memory_bytes_);
  sum_ = streams_.Allocate(static_cast<std::size_t>(kLine));
  for (; bytes >= 2 * l2_bytes_ && bytes >= kLeastBytes; bytes /= 2) {
    buffer_bytes_ = InLines(bytes);
    first_ = streams_.Allocate(buffer_bytes_);
    second_ = streams_.Allocate(buffer_bytes_);
    if (first_ != nullptr && second_ != nullptr) break;
    for (std::byte** memory : {&first_, &second_}) {
      if (*memory != nullptr) streams_.Free(*memory);
      *memory = nullptr;
    }
  }
  if (first_ == nullptr || second_ == nullptr || sum_ == nullptr) {
    fault_ = "the device has no free memory for the probes";
    return false;
  }
  fault_ = CheckStreams();
  if (!fault_.empty()) return false;
  FillBuffers();
  WarmUp();
  return true;
}

void GpuRoofMeter::FillBuffers() {
  const std::vector<uint64_t> block = RandomWords(std::min(kFillWords, buffer_bytes_ / sizeof(uint64_t)));
  const std::size_t block_bytes = block.size() * sizeof(uint64_t);
  streams_.Upload(first_, block);
  std::vector<GpuPass> copies;
  for (std::byte* memory : {first_, second_}) {
    for (std::size_t at = memory == first_ ? block_bytes : 0; at < buffer_bytes_; at += block_bytes) {
      copies.push_back({.kind = StreamKind::kCopy,
                        .to = memory + at,
                        .from = first_,
                        .bytes = std::min(block_bytes, buffer_bytes_ - at)});
    }
  }
  streams_.Seconds(copies);
}

void GpuRoofMeter::WarmUp() {
  const GpuPass pass = {.kind = StreamKind::kRead, .to = sum_, .from = first_, .bytes = buffer_bytes_};
  double seconds = 0;
  for (int i = 0; i < kMostWarmUps && seconds < kWarmUpSeconds; ++i) seconds += streams_.Seconds(std::span(&pass, 1));
}

std::string GpuRoofMeter::CheckStream(StreamKind kind, int variant) {
  constexpr int kRepeat = 2;
  const std::vector<uint64_t> source = RandomWords(kCheckWords);
  std::vector<uint64_t> target(kCheckWords + 8, 7);  // one line more than the stream may touch
  std::vector<uint64_t> expected = target;
  uint64_t expected_sum = 0;
  for (std::size_t i = 0; i < kCheckWords; ++i) {
    if (kind == StreamKind::kRead) expected_sum += kRepeat * source[i];
    if (kind == StreamKind::kCopy) expected[i] = source[i];
    if (kind == StreamKind::kUpdate) expected[i] += kRepeat;
    if (kind == StreamKind::kWrite) expected[i] = kWritePattern;
  }
  std::array<uint64_t, 1> sum = {0};
  streams_.Upload(first_, source);
  streams_.Upload(second_, target);
  streams_.Upload(sum_, sum);
  const GpuPass pass = {.kind = kind,
                        .variant = variant,
                        .to = kind == StreamKind::kRead ? sum_ : second_,
                        .from = first_,
                        .bytes = kCheckWords * sizeof(uint64_t),
                        .repeat = kRepeat};
  streams_.Enqueue(pass);
  streams_.Download(target, second_);
  streams_.Download(sum, sum_);
  if (target == expected && sum[0] == expected_sum) return {};
  return "the stream '" + std::string(Name(kind)) + "' (" +
         std::string(streams_.variants()[static_cast<std::size_t>(variant)]) + ") computes something else";
}

std::string GpuRoofMeter::CheckStreams() {
  if (first_ == nullptr) return MakeBuffers() ? "" : fault_;
  if (buffer_bytes_ < (kCheckWords + 8) * sizeof(uint64_t)) return "the buffers of the probes are too small";
  for (const StreamKind kind : kStreamKinds) {
    for (std::size_t variant = 0; variant < streams_.variants().size(); ++variant) {
      if (std::string wrong = CheckStream(kind, static_cast<int>(variant)); !wrong.empty()) return wrong;
    }
  }
  return {};
}

void GpuRoofMeter::AddPasses(StreamKind kind, int variant, double bytes, std::vector<GpuPass>& passes) {
  std::size_t left = InLines(std::max(bytes, kLeastBytes));
  while (left > 0) {
    const std::size_t piece = std::min(left, buffer_bytes_ - cursor_);
    passes.push_back({.kind = kind,
                      .variant = variant,
                      .to = kind == StreamKind::kRead ? sum_ : second_ + cursor_,
                      .from = first_ + cursor_,
                      .bytes = piece});
    left -= piece;
    cursor_ += piece;
    if (cursor_ == buffer_bytes_) {
      cursor_ = 0;
      std::swap(first_, second_);
    }
  }
}

bool GpuRoofMeter::DisplaceCache() {
  if (!MakeBuffers()) return false;
  std::vector<GpuPass> passes;
  // Lines that were written would be written back while the next step runs. Variant 0 loads in the ordinary way: the
  // lines of streaming loads would be the first to leave.
  AddPasses(StreamKind::kRead, 0, kDisplacingL2s * l2_bytes_, passes);
  for (const GpuPass& pass : passes) streams_.Enqueue(pass);
  return true;
}

double GpuRoofMeter::RateOf(const std::vector<GpuPass>& passes) {
  double moved = 0;
  for (const GpuPass& pass : passes) {
    moved += pass.repeat * StreamTraffic(pass.kind, static_cast<double>(pass.bytes));
  }
  const double elapsed = streams_.Seconds(passes);
  return elapsed > 0 ? moved / elapsed : 0;
}

double GpuRoofMeter::MeasureStream(StreamKind kind, int variant, double seconds) {
  double& pace = pace_[Index(kind)];
  const double traffic = (pace > 0 ? pace : kFirstPace) * seconds;
  std::vector<GpuPass> passes;
  AddPasses(kind, variant, traffic / StreamTraffic(kind, 1), passes);
  const double rate = RateOf(passes);
  if (rate > 0) pace = rate;
  return rate;
}

std::vector<Candidate> GpuRoofMeter::StreamCandidates(StreamKind kind) {
  if (!MakeBuffers()) return {};
  std::vector<Candidate> candidates;
  for (std::size_t variant = 0; variant < streams_.variants().size(); ++variant) {
    candidates.push_back({.roof = std::string(Name(kind)),
                          .variant = std::string(streams_.variants()[variant]),
                          .measure =
                              [this, kind, variant](double seconds) {
                                if (pace_[Index(kind)] <= 0) MeasureStream(kind, 0, seconds);  // estimates the rate
                                return MeasureStream(kind, static_cast<int>(variant), seconds);
                              },
                          .index = variant});
  }
  return candidates;
}

void GpuRoofMeter::Choose(StreamKind kind, const Candidate& winner) {
  best_[Index(kind)] = static_cast<int>(winner.index);
  pace_[Index(kind)] = winner.rate;
}

Rates GpuRoofMeter::MeasureStreams(const StreamShares& shares, double seconds) {
  if (!MakeBuffers()) return {};
  const double pace = MixedPace(shares, pace_);
  std::vector<GpuPass> passes;
  for (const StreamKind kind : kStreamKinds) {
    const double traffic = shares[Index(kind)] * pace * seconds;
    if (traffic > 0) AddPasses(kind, best_[Index(kind)], traffic / StreamTraffic(kind, 1), passes);
  }
  const double rate = RateOf(passes);
  return {.wall = rate, .cpu = rate};
}

double GpuRoofMeter::MeasureStreamsInCache(const StreamShares& shares, double working_set_bytes, double seconds) {
  if (working_set_bytes < kLine || !MakeBuffers()) return 0;
  // Every stream uses the same working set, which a copy halves: from one half to the other.
  const auto pass_of = [&](StreamKind kind) {
    const double bytes = std::min(working_set_bytes, static_cast<double>(buffer_bytes_));
    const std::size_t moved = std::max(InLines(kind == StreamKind::kCopy ? bytes / 2 : bytes), std::size_t{64});
    return GpuPass{.kind = kind,
                   .to = kind == StreamKind::kRead   ? sum_
                         : kind == StreamKind::kCopy ? first_ + moved
                                                     : first_,
                   .from = first_,
                   .bytes = moved};
  };
  // Loads the working set, and estimates the rate of streams that have not run in a cache yet.
  for (const StreamKind kind : kStreamKinds) {
    if (shares[Index(kind)] <= 0) continue;
    GpuPass pass = pass_of(kind);
    streams_.Seconds(std::span(&pass, 1));
    double& pace = cache_pace_[Index(kind)];
    if (pace > 0) continue;
    pass.repeat = 16;
    pace = RateOf({pass});
  }
  const double traffic = MixedPace(shares, cache_pace_) * seconds;
  std::vector<GpuPass> passes;
  for (const StreamKind kind : kStreamKinds) {
    if (shares[Index(kind)] <= 0) continue;
    GpuPass pass = pass_of(kind);
    const double once = StreamTraffic(kind, static_cast<double>(pass.bytes));
    pass.repeat = static_cast<int>(std::clamp(shares[Index(kind)] * traffic / once, 1.0, kMostRepeats));
    passes.push_back(pass);
  }
  return RateOf(passes);
}

}  // namespace roofbench::hardware
