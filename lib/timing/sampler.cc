// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/sampler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lib/timing/chunk_plan.h"
#include "lib/timing/series.h"
#include "lib/timing/statistics.h"

namespace roofbench::timing {
namespace {

constexpr int64_t kMinChunks = 4;           // the machine's speed changes between chunks, rarely within one
constexpr int64_t kMaxChunkSamples = 1000;  // keeps the samples of a chunk in the first-level cache
constexpr int64_t kReservedSamples = 8192;

constexpr int64_t kMinWarmupChunks = 3;
constexpr double kFlat = 0.02;  // successive medians of the warm-up that agree this well

constexpr double kStrongCorrelation = 0.5;  // of successive samples
constexpr double kAgreedGrowth = 1.75;      // of the samples, while checks agree; by simulation (docs/roofs.md)

// `converged`, by simulation (docs/roofs.md): seconds since the first sample, until levels of a tenth of a second show,
// and blocks that look independent, where neighbors do not.
constexpr double kLeastSpan = 0.6;
constexpr std::size_t kLeastBlocks = 20;

constexpr double kMinProbeSeconds = 0.5e-3;  // a roof needs this long to reach full speed
constexpr double kMaxProbeSeconds = 25e-3;
constexpr double kMaxProbeShare = 0.1;  // of a chunk that is long compared with kMaxProbeSeconds
constexpr double kNearlyAll = 0.9;      // of the time of the samples

// A chunk that begins at a clock below this share of the usual one is repeated after a pause, so often at most in a
// case: heat and power take the clock down for moments, and the samples of one would be those of another machine.
constexpr double kUsualClock = 0.75;
constexpr int64_t kMostRepeatedChunks = 3;
constexpr std::chrono::milliseconds kPause(100);
// The chunk that finds the time of kernels whose launches set the pace: short, since all of its launches wait in the
// queue, and behind a wait that is longer than they should take.
constexpr int64_t kHeldSteps = 4;
constexpr int64_t kHeldSamples = 5;
constexpr double kHoldMargin = 3;
constexpr double kMostHoldSeconds = 0.05;
constexpr double kShortStep = 0.2;  // of a chunk: longer steps fill the caches themselves, early in the chunk

// Ends a chunk even if the step throws: the next case uses the same clock.
class OpenChunk {
 public:
  OpenChunk(Clock& clock, std::size_t marks) : clock_(clock) { clock_.BeginChunk(marks); }
  OpenChunk(const OpenChunk&) = delete;
  OpenChunk& operator=(const OpenChunk&) = delete;

  ~OpenChunk() {
    if (closed_) return;
    try {
      clock_.EndChunk();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the step's exception, on its way now, is more specific
    }
  }

  std::span<const double> Close() {
    closed_ = true;
    return clock_.EndChunk();
  }

 private:
  Clock& clock_;
  bool closed_ = false;
};

void Validate(int phases, const SampleOptions& options) {
  if (phases < 0) throw std::invalid_argument("a negative number of phases");
  if (options.max_samples < 1) throw std::invalid_argument("max_samples below 1");
  if (options.warmup_iters.value_or(0) < 0) throw std::invalid_argument("warmup_iters below 0");
  if (!(options.chunk_seconds > 0)) throw std::invalid_argument("chunk_seconds not above 0");
  if (!(options.roof_share >= 0 && options.roof_share < 1)) throw std::invalid_argument("roof_share outside of [0, 1)");
}

// Turns the phases that a step ends into marks. The first call of the step defines their sequence; violations of the
// rules of PhaseMarker throw std::logic_error with the phase or count at fault.
class PhaseRecorder final : public PhaseMarker {
 public:
  PhaseRecorder(Clock& clock, int phases) : clock_(clock), phases_(static_cast<std::size_t>(phases)) {
    if (phases_ > 0) sequence_.reserve(clock_.MaxStepMarks());  // allocations between marks would be timed
  }

  // Whether the ends of phases are marked, or only checked (outside of a chunk). On at first.
  void SetMarking(bool marking) { marking_ = marking; }
  void BeginSamples(int64_t measurement) { measurement_ = measurement; }
  int64_t Measurement() const override { return marking_ ? measurement_ : 0; }

  // Calls the step and checks that it ended all of its phases.
  void Run(const Step& step) {
    ended_ = 0;
    step(*this);
    if (!learned_) FinishLearning();
    if (ended_ != sequence_.size()) {
      throw std::logic_error("a step ended " + std::to_string(ended_) + " phases where its first call ended " +
                             std::to_string(sequence_.size()));
    }
  }

  void End(int phase) override {
    const auto index = static_cast<std::size_t>(phase);
    if (!learned_) {
      Learn(index);
    } else if (ended_ >= sequence_.size() || sequence_[ended_] != index) {
      throw std::logic_error("a step ended phase " + std::to_string(phase) + " as its number " +
                             std::to_string(ended_) + ", unlike its first call");
    }
    ++ended_;
    if (marking_) clock_.Mark();
  }

  // Marks per step: before the end of the first call, the most that it may make.
  std::size_t MarksPerStep() const {
    if (phases_ == 0) return 0;
    return learned_ ? sequence_.size() : clock_.MaxStepMarks() - 1;
  }

  // The phase of each mark of a step. Empty before the first call and for a step without phases.
  std::span<const std::size_t> Sequence() const { return sequence_; }

 private:
  void Learn(std::size_t phase) {
    if (phase >= phases_) {
      throw std::logic_error("a step of " + std::to_string(phases_) + " phases ended phase " +
                             std::to_string(static_cast<int>(phase)));
    }
    if (sequence_.size() == MarksPerStep()) {
      throw std::logic_error("a step ended more than " + std::to_string(sequence_.size()) +
                             " phases, the most that its clock can mark");
    }
    sequence_.push_back(phase);
  }

  void FinishLearning() {
    for (std::size_t phase = 0; phase < phases_; ++phase) {
      if (std::find(sequence_.begin(), sequence_.end(), phase) == sequence_.end()) {
        throw std::logic_error("a step of " + std::to_string(phases_) + " phases never ended phase " +
                               std::to_string(phase));
      }
    }
    learned_ = true;
  }

  Clock& clock_;
  const std::size_t phases_;
  std::vector<std::size_t> sequence_;
  std::size_t ended_ = 0;  // by the current step
  bool learned_ = false;
  bool marking_ = true;
  int64_t measurement_ = 0;
};

class Sampler {
 public:
  Sampler(Clock& clock, const Step& step, int phases, const RoofProbe& roof, const SampleOptions& options,
          Samples& result)
      : clock_(clock),
        step_(step),
        roof_(roof),
        options_(options),
        recorder_(clock, phases),
        // Work before a step would be timed with it where several steps share a sample.
        shortest_sample_(options.before_step ? 0 : options.floor_multiple * clock.FloorSeconds()),
        start_marks_(options.before_step || options.before_sample ? 1 : 0),
        start_(clock.HostSeconds()),
        result_(result) {
    result_ = {};
    const auto reserved = static_cast<std::size_t>(std::min(options.max_samples, kReservedSamples));
    result_.seconds.reserve(reserved);
    result_.phase_seconds.resize(static_cast<std::size_t>(phases));
    for (std::vector<double>& seconds : result_.phase_seconds) seconds.reserve(reserved);
  }

  void Run() {
    double roof_before = 0;
    if (options_.warmup_iters) {
      WarmUpTo(*options_.warmup_iters - 1);
      roof_before = ProbeRoof();
      WarmUpTo(*options_.warmup_iters);
    } else {
      WarmUpUntilFlat();
      roof_before = ProbeRoof();
      RestoreCaches();
    }
    if (options_.warmed_up) options_.warmed_up();
    sampling_since_ = Elapsed();
    recorder_.BeginSamples(options_.measurement);
    for (;;) {
      TakeChunk();
      const double roof_after = ProbeRoof();
      if (roof_before > 0 && roof_after > 0) result_.chunks.back().roof_rate = (roof_before + roof_after) / 2;
      if (const std::optional<StopReason> stop = ReasonToStop()) {
        result_.stop = *stop;
        break;
      }
      RestoreCaches();
      roof_before = roof_after;
    }
    result_.cpu_seconds_per_step = cpu_seconds_ / static_cast<double>(sampled_steps_);
    result_.host_enqueue_ratio = EnqueueRatio();
    result_.kernel_seconds = KernelSeconds();
  }

 private:
  struct Reading {
    std::span<const double> marks;  // valid until the next chunk
    double host_seconds = 0;        // without the wait for the device
    double enqueue_seconds = 0;
    double cpu_seconds = 0;
  };

  // Stores the duration of a step, sample by sample in their order, in step_seconds_.
  Reading RunChunk(const ChunkPlan& plan) {
    const auto samples = static_cast<std::size_t>(plan.samples);
    const auto steps = static_cast<std::size_t>(plan.steps_per_sample);
    const std::size_t phase_marks = recorder_.MarksPerStep();
    const double cpu_start = clock_.ProcessCpuSeconds();
    const std::size_t room = 1 + samples * (start_marks_ + (phase_marks == 0 ? 1 : steps * phase_marks));
    OpenChunk chunk(clock_, started_ ? room : std::min(room, clock_.MaxStepMarks()));
    const double host_start = clock_.HostSeconds();
    double preparing_cpu_seconds = 0;
    clock_.Mark();
    for (std::size_t sample = 0; sample < samples; ++sample) {
      if (start_marks_ > 0) preparing_cpu_seconds += BeforeSample(plan.steps_per_sample);
      for (std::size_t step = 0; step < steps; ++step) recorder_.Run(step_);
      if (phase_marks == 0) clock_.Mark();
    }
    const double host_seconds = clock_.HostSeconds() - host_start;
    const std::span<const double> marks = chunk.Close();
    const double enqueue_seconds = clock_.EnqueueSeconds(host_seconds);
    const double cpu_seconds = clock_.ProcessCpuSeconds() - cpu_start - preparing_cpu_seconds;

    const std::size_t stride = (marks.size() - 1) / samples;
    step_seconds_.clear();
    last_seconds_ = 0;
    for (std::size_t end = stride; end < marks.size(); end += stride) {
      const double seconds = marks[end] - marks[end - stride + start_marks_];
      step_seconds_.push_back(seconds / static_cast<double>(steps));
      last_seconds_ += seconds;
    }
    last_ = plan;
    if (!started_) result_.first_step_seconds = last_seconds_;
    started_ = true;
    device_hertz_.push_back(clock_.DeviceHertz());
    return {
        .marks = marks, .host_seconds = host_seconds, .enqueue_seconds = enqueue_seconds, .cpu_seconds = cpu_seconds};
  }

  // Prepares a sample, untimed, and returns the CPU seconds of that.
  double BeforeSample(int64_t steps) {
    const double cpu_start = clock_.ProcessCpuSeconds();
    if (options_.before_step) options_.before_step();
    if (options_.before_sample) options_.before_sample(steps);
    const double cpu_seconds = clock_.ProcessCpuSeconds() - cpu_start;
    clock_.Mark();
    return cpu_seconds;
  }

  // Sorts step_seconds_.
  void UpdateMedian() {
    std::sort(step_seconds_.begin(), step_seconds_.end());
    median_seconds_ = Median(step_seconds_);
  }

  void WarmUp(const ChunkPlan& plan) {
    RunChunk(plan);
    UpdateMedian();
    result_.warmup_steps += plan.steps_per_sample * plan.samples;
    PollInterrupted();
  }

  void WarmUpTo(int64_t steps) {
    while (result_.warmup_steps < steps && !interrupted_) {
      const int64_t left = steps - result_.warmup_steps;
      ChunkPlan plan = Plan(options_.chunk_seconds, left);
      plan.steps_per_sample = std::min(plan.steps_per_sample, left);
      plan.samples = std::min(plan.samples, left / plan.steps_per_sample);
      WarmUp(plan);
    }
  }

  void WarmUpUntilFlat() {
    WarmUp({});
    const double start = Elapsed();
    const double chunk_seconds = std::min(options_.chunk_seconds, options_.max_warmup_time / kMinChunks);
    for (int64_t chunks = 1; !interrupted_ && Elapsed() < options_.max_wall; ++chunks) {
      const double previous = median_seconds_;
      WarmUp(Plan(chunk_seconds, kMaxChunkSamples));
      if (chunks >= kMinWarmupChunks && IsFlatSince(previous)) break;
      if (Elapsed() - start >= options_.max_warmup_time) break;
    }
  }

  bool IsFlatSince(double previous) const {
    const Interval interval = MedianInterval(step_seconds_);
    return std::abs(median_seconds_ - previous) <= kFlat * median_seconds_ ||
           (interval.low <= previous && previous <= interval.high);
  }

  void TakeChunk() {
    const ChunkPlan plan = SamplingPlan();
    Reading reading = RunChunk(plan);
    while (IsSlowedDown() && result_.repeated_chunks < kMostRepeatedChunks && !interrupted_) {
      ++result_.repeated_chunks;
      std::this_thread::sleep_for(kPause);
      PollInterrupted();
      RestoreCaches();
      reading = RunChunk(plan);
    }
    const int64_t first = SampleCount();
    result_.seconds.insert(result_.seconds.end(), step_seconds_.begin(), step_seconds_.end());
    BookPhases(reading.marks, plan);
    UpdateMedian();
    all_.Add(step_seconds_);
    result_.chunks.push_back({.first_sample = first,
                              .samples = plan.samples,
                              .median_seconds = median_seconds_,
                              .device_hertz = device_hertz_.back()});
    result_.steps_per_sample = plan.steps_per_sample;
    sampled_steps_ += plan.samples * plan.steps_per_sample;
    sampled_seconds_ += last_seconds_;
    chunk_seconds_ += reading.marks.back();
    enqueue_seconds_ += reading.enqueue_seconds;
    cpu_seconds_ += reading.cpu_seconds;
    PollInterrupted();
  }

  void BookPhases(std::span<const double> marks, const ChunkPlan& plan) {
    const std::span<const std::size_t> sequence = recorder_.Sequence();
    if (sequence.empty()) return;
    for (std::vector<double>& seconds : result_.phase_seconds) seconds.resize(result_.seconds.size());
    std::size_t mark = 0;
    for (std::size_t sample = result_.seconds.size() - step_seconds_.size(); sample < result_.seconds.size();
         ++sample) {
      mark += start_marks_;
      for (int64_t step = 0; step < plan.steps_per_sample; ++step) {
        for (const std::size_t phase : sequence) {
          result_.phase_seconds[phase][sample] +=
              (marks[mark + 1] - marks[mark]) / static_cast<double>(plan.steps_per_sample);
          ++mark;
        }
      }
    }
  }

  // A step that waits for the device occupies the host as long as the device works, however little it enqueues.
  double EnqueueRatio() {
    if (chunk_seconds_ <= 0) return 0;
    const double ratio = enqueue_seconds_ / chunk_seconds_;
    if (ratio < kNearlyAll || interrupted_) return ratio;
    const double waited = clock_.SecondsWaitedIn([this] { RunOnce(); });
    if (waited <= 0) return ratio;
    // The device's work meanwhile is unknown: the host set the pace if enqueueing took nearly all of the time.
    const double enqueueing = enqueue_seconds_ - waited * static_cast<double>(sampled_steps_);
    return std::max(0.0, enqueueing) / (kNearlyAll * chunk_seconds_);
  }

  // Whether the last chunk began while the device's clock was far below that of most chunks.
  bool IsSlowedDown() const {
    const double now = device_hertz_.back();
    return options_.watches_device && now > 0 && now < kUsualClock * Median(device_hertz_);
  }

  double KernelSeconds() {
    if (!options_.watches_device || result_.host_enqueue_ratio < kNearlyAll || interrupted_) return 0;
    const int64_t most_steps = options_.before_step ? 1 : kHeldSteps;
    const ChunkPlan plan = {.steps_per_sample = std::min(most_steps, options_.most_steps_per_sample),
                            .samples = kHeldSamples};
    const double each = enqueue_seconds_ / static_cast<double>(sampled_steps_);
    const int64_t marks = plan.samples * plan.steps_per_sample * std::max<int64_t>(1, MarksPerStep());
    const double hold = kHoldMargin * each * static_cast<double>(plan.steps_per_sample * plan.samples);
    const bool fits = hold <= kMostHoldSeconds && marks <= static_cast<int64_t>(clock_.MaxMarks());
    if (!fits || !clock_.HoldNextChunk(hold)) return 0;
    const Reading reading = RunChunk(plan);
    return reading.host_seconds < hold ? Median(step_seconds_) : 0;
  }

  // The roof's rate, or 0 where there is none.
  double ProbeRoof() {
    if (!roof_ || options_.roof_share <= 0 || interrupted_) return 0;
    const ChunkPlan next = SamplingPlan();
    const double next_seconds =
        started_ ? static_cast<double>(next.samples * next.steps_per_sample) * median_seconds_ : options_.chunk_seconds;
    const double chunk_seconds = std::max(last_seconds_, next_seconds);
    const double longest = std::max(kMaxProbeSeconds, kMaxProbeShare * chunk_seconds);
    return roof_(
        std::clamp(options_.roof_share / (1 - options_.roof_share) * chunk_seconds, kMinProbeSeconds, longest));
  }

  // The roof probe has left its own data in the caches.
  void RestoreCaches() {
    if (!roof_ || interrupted_ || median_seconds_ >= kShortStep * options_.chunk_seconds) return;
    // Like any other step: one that changes its operands would find what the step before left, and its result, which
    // may be looked at, would be wrong.
    if (options_.before_step) options_.before_step();
    RunOnce();
  }

  void RunOnce() {
    recorder_.SetMarking(false);
    recorder_.Run(step_);
    recorder_.SetMarking(true);
  }

  std::optional<StopReason> ReasonToStop() {
    if (interrupted_) return StopReason::kInterrupted;
    const bool full = SampleCount() >= options_.max_samples;
    const bool enough =
        SampleCount() >= options_.min_samples && (full || static_cast<int64_t>(result_.chunks.size()) >= kMinChunks);
    if (!options_.exact_samples && enough && IsKnown()) {
      if (Elapsed() - sampling_since_ < kLeastSpan) return StopReason::kNarrow;
      if (IndependentBlocks(result_.seconds) >= std::min(kLeastBlocks, result_.seconds.size())) {
        return StopReason::kConverged;
      }
    }
    if (full) return StopReason::kMaxSamples;
    if (options_.exact_samples) return std::nullopt;
    if (SampleCount() < options_.least_samples) return std::nullopt;
    if (sampled_seconds_ >= options_.max_time) return StopReason::kMaxTime;
    if (Elapsed() >= options_.max_wall) return StopReason::kMaxWall;
    return std::nullopt;
  }

  // Whether the interval of the median is narrow enough. Correlation only widens it, so most checks need not look for
  // that. Where there is some, a single check may find too little: two in succession must agree, and where it is strong
  // all of them, while the samples grow by a good part.
  bool IsKnown() {
    const double narrowest = all_.RelativeHalfWidth();
    const double ci = narrowest <= options_.target_ci ? Summarize(result_.seconds).ci : narrowest;
    const bool known_before = known_since_ > 0;
    if (ci > options_.target_ci) {
      known_since_ = 0;
      return false;
    }
    if (!known_before) known_since_ = SampleCount();
    if (LagOneCorrelation(result_.seconds) > kStrongCorrelation) {
      return static_cast<double>(SampleCount()) >= kAgreedGrowth * static_cast<double>(known_since_);
    }
    return known_before || ci <= narrowest;
  }

  // The next chunk, if it may last `seconds` and hold `samples`.
  ChunkPlan Plan(double seconds, int64_t samples) const {
    if (!started_) return {};
    return NextPlan(last_, median_seconds_,
                    {.sample_seconds = shortest_sample_,
                     .max_steps = options_.most_steps_per_sample,
                     .chunk_seconds = seconds,
                     .max_samples = std::min(samples, kMaxChunkSamples),
                     .marks_per_step = MarksPerStep(),
                     .max_marks = static_cast<int64_t>(clock_.MaxMarks())});
  }

  // 0: one mark per sample.
  int64_t MarksPerStep() const {
    const std::size_t phase_marks = recorder_.MarksPerStep();
    if (start_marks_ == 0) return static_cast<int64_t>(phase_marks);
    return static_cast<int64_t>(start_marks_ + std::max<std::size_t>(phase_marks, 1));
  }

  ChunkPlan SamplingPlan() {
    if (interrupted_) return Plan(0, 1);
    const int64_t samples =
        std::min((options_.max_samples + kMinChunks - 1) / kMinChunks, options_.max_samples - SampleCount());
    if (options_.exact_samples) return Plan(options_.chunk_seconds, samples);
    return Plan(std::min({options_.chunk_seconds, options_.max_time / kMinChunks, options_.max_time - sampled_seconds_,
                          options_.max_wall - Elapsed()}),
                samples);
  }

  void PollInterrupted() { interrupted_ = interrupted_ || (options_.interrupted && options_.interrupted()); }
  double Elapsed() { return clock_.HostSeconds() - start_; }
  int64_t SampleCount() const { return static_cast<int64_t>(result_.seconds.size()); }

  Clock& clock_;
  const Step& step_;
  const RoofProbe& roof_;
  const SampleOptions& options_;
  PhaseRecorder recorder_;
  const double shortest_sample_;
  const std::size_t start_marks_;  // of a sample, where its start is not the end of the one before
  const double start_;             // on the host

  Samples& result_;
  RunningMedian all_;
  int64_t sampled_steps_ = 0;
  double sampled_seconds_ = 0;
  double sampling_since_ = 0;
  double chunk_seconds_ = 0;  // the same with what precedes samples
  double enqueue_seconds_ = 0;
  double cpu_seconds_ = 0;

  bool started_ = false;  // the step has run
  bool interrupted_ = false;
  int64_t known_since_ = 0;  // samples at the first of the checks until now that found the median known; 0: none did
  ChunkPlan last_;           // this and the next three: of the last chunk, warm-up included
  double last_seconds_ = 0;
  double median_seconds_ = 0;
  std::vector<double> device_hertz_;  // at the start of each chunk
  std::vector<double> step_seconds_;
};

}  // namespace

std::string_view Name(StopReason reason) {
  constexpr std::array<std::string_view, 6> kNames = {"converged", "narrow",   "max_samples",
                                                      "max_time",  "max_wall", "interrupted"};
  return kNames.at(static_cast<std::size_t>(reason));
}

void TakeSamples(Clock& clock, const Step& step, int phases, const RoofProbe& roof, const SampleOptions& options,
                 Samples& samples) {
  Validate(phases, options);
  Sampler(clock, step, phases, roof, options, samples).Run();
}

Samples TakeSamples(Clock& clock, const Step& step, int phases, const RoofProbe& roof, const SampleOptions& options) {
  Samples samples;
  TakeSamples(clock, step, phases, roof, options, samples);
  return samples;
}

}  // namespace roofbench::timing
