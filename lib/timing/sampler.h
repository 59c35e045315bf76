// SPDX-License-Identifier: Apache-2.0
// Takes samples of a step until the uncertainty of their median is small enough, and reports it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/timing/clock.h"

namespace roofbench::timing {

// Passed to a step that has named phases: End(i) closes the work since the last mark and assigns it to phase i. A step
// must end the same phases in the same order each time, and end its last phase as its last action.
class PhaseMarker {
 public:
  virtual ~PhaseMarker() = default;
  virtual void End(int phase) = 0;
  // The measurement of its case of which the step is a sample, for what it times itself; 0: of none, as in a warm-up, a
  // check or a pilot. Of the samples of several, those of the last count.
  virtual int64_t Measurement() const { return 0; }
};

// For steps whose phases are not timed.
class IgnoredPhases : public PhaseMarker {
 public:
  explicit IgnoredPhases(int64_t measurement = 0) : measurement_(measurement) {}
  void End(int /*phase*/) override {}
  int64_t Measurement() const override { return measurement_; }

 private:
  const int64_t measurement_;
};

// One step. It must do the same work each time it is called.
using Step = std::function<void(PhaseMarker&)>;

// Measures the binding roof for about `seconds`, on the same threads as the step, and returns its rate in the roof's
// own unit per second (bytes/s or FLOP/s); 0 if it could not be measured.
using RoofProbe = std::function<double(double seconds)>;

// The limits take precedence over min_samples, but at least one sample is always taken.
struct SampleOptions {
  // Exactly this many steps before the samples; nullopt: until chunk medians are flat.
  std::optional<int64_t> warmup_iters = {};
  int64_t min_samples = 10;
  int64_t max_samples = 5000;
  int64_t least_samples = 1;     // taken regardless of the time limits
  int64_t measurement = 0;       // what steps are told that they are samples of (PhaseMarker::Measurement)
  bool exact_samples = false;    // take exactly max_samples, regardless of the other limits
  double max_time = 0.4;         // seconds of samples (the timed steps alone)
  double max_wall = 4.0;         // seconds of everything: warm-up, samples, roof probes
  double max_warmup_time = 0.2;  // seconds of automatic warm-up, not counting the first step
  double target_ci = 0.01;       // stop when the relative half-width of the median's 95 % interval is below this
  double chunk_seconds = 0.025;  // longest stretch of samples between two roof probes (one sample may be longer)
  double roof_share = 0.25;      // roof probes take about this share of the sampling time; 0: no probes
  // A sample lasts at least this many floors, so that its own mark is a hundredth of it: short steps share one.
  double floor_multiple = 100;
  // Polled after every chunk, of the warm-up too; a true ends sampling early (in the warm-up: after one more sample).
  std::function<bool()> interrupted = {};
  // Called once, between the warm-up and the samples.
  std::function<void()> warmed_up = {};
  // Called before every step, untimed: evicts the operands from the caches. Each sample is then one step.
  std::function<void()> before_step = {};
  // Called before every sample, of so many steps, untimed and after before_step: brings several processes to the same
  // point.
  std::function<void(int64_t steps)> before_sample = {};
  int64_t most_steps_per_sample = int64_t{1} << 20;  // where a clock shows no progress
  // Of a device that lags the host: takes chunks again that began at a low clock, and finds kernel_seconds. Then there
  // are more steps, and more calls of before_step and before_sample, than the samples need.
  bool watches_device = false;
};

// kNarrow: the interval of the median is narrow enough, but the samples were taken within so short a time that all may
// be of one level of the machine's speed, which lasts as long. kConverged: over a longer time.
enum class StopReason { kConverged, kNarrow, kMaxSamples, kMaxTime, kMaxWall, kInterrupted };
std::string_view Name(StopReason reason);  // "converged", "narrow", "max_samples", "max_time", "max_wall", …

// One chunk of samples with the roof's rate around it.
struct Chunk {
  int64_t first_sample = 0;  // index into Samples::seconds
  int64_t samples = 0;
  double median_seconds = 0;  // of one step
  double roof_rate = 0;       // mean of the probe before and the probe after; 0 if either is missing or failed
  double device_hertz = 0;    // rate of the device's clock at its start; 0 where it is not known
};

struct Samples {
  std::vector<double> seconds;                     // of one step; a sample of k steps is divided by k
  std::vector<std::vector<double>> phase_seconds;  // [phase][sample], of one step; the phases sum to `seconds`
  std::vector<Chunk> chunks;
  int64_t steps_per_sample = 1;     // of the last chunk: it grows while samples turn out too short for the floor
  int64_t warmup_steps = 0;         // with the first one, without the untimed steps that follow roof probes
  double first_step_seconds = 0;    // the very first call: part of `seconds` only with warmup_iters = 0
  double cpu_seconds_per_step = 0;  // process CPU time of the samples alone
  double host_enqueue_ratio = 0;    // host seconds to enqueue the chunks over device seconds of the chunks
  // Of a step whose pace the host sets: its time on the device, after a wait during which all launches were enqueued. 0
  // for other steps, and where the launches take longer than the device may wait.
  double kernel_seconds = 0;
  int64_t repeated_chunks = 0;  // because the device's clock was far below its usual rate
  StopReason stop = StopReason::kConverged;
};

// Runs `step` under `clock` with `options`. `phases` is the number of named phases of the step (0: none). With a
// `roof`, probes of it alternate with the chunks: probe, chunk, probe, chunk, …, probe; after a probe one untimed step
// restores the caches if a step is short compared with a chunk. With warmup_iters, the last warm-up step follows the
// first probe and does so. Exceptions from the step pass through. Throws std::logic_error if the step breaks the rules
// of PhaseMarker, and std::invalid_argument for meaningless options.
Samples TakeSamples(Clock& clock, const Step& step, int phases, const RoofProbe& roof, const SampleOptions& options);

// The same into `samples`, which holds the finished chunks when an exception passes through.
void TakeSamples(Clock& clock, const Step& step, int phases, const RoofProbe& roof, const SampleOptions& options,
                 Samples& samples);

}  // namespace roofbench::timing
