#include "lib/harness/session.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/harness/conditions_watch.h"
#include "lib/harness/counters.h"
#include "lib/harness/fp32_scope.h"
#include "lib/harness/inputs.h"
#include "lib/harness/shared_operands.h"
#include "lib/harness/text.h"
#include "lib/harness/unverified.h"
#include "lib/observe/peak_memory.h"
#include "lib/observe/process_memory.h"
#include "lib/observe/ranges.h"

namespace roofbench {
namespace {

// A cold case rotates over clones that fill the last-level cache this many times: as many as the memory probe's
// buffers, for the part that survives a round is the same then.
constexpr double kCacheTurnover = 16;
constexpr int64_t kMostClones = 4096;
// Clones may take this share of the free memory.
constexpr double kCloneShare = 0.25;
// What a step's own prediction may be off by, and what the process needs beside it.
constexpr double kMemoryMargin = 1.1;
constexpr double kMemoryReserve = 256e6;
// A case that heat slowed down is measured again this often.
constexpr int kThermalRetries = 2;
// A cold case that beats its roof by more has a wrong probe or a wrong cost. Where the memory's speed changes within
// minutes, two of sixty runs of the stream itself came to 1.08 and 1.12 (two-core EPYC, 2026-11-20): that is no
// mistake.
constexpr double kImpossibleRoof = 1.25;
// Below this rate nothing useful runs: work that is done in time even then needs no prediction.
constexpr double kCrawl = 2e8;  // operations and bytes a second

// Steps longer than this are left out of a suite (seconds).
constexpr double kSuiteStepLimits[] = {1.0, 5.0, 60.0};
// A family of long steps is known to run above this share of its roof, so that the roof can predict it.
constexpr double kLongStepRoof = 0.2;

// A marker for steps that run untimed.
class IgnoredPhases : public timing::PhaseMarker {
 public:
  void End(int /*phase*/) override {}
};

// How allocators say that there is no memory where they have no exception for it: LibTorch's on a CPU (with the bytes
// that were asked for), oneDNN's, and the system's.
constexpr std::string_view kNoMemory[] = {"allocate memory", "not enough memory", "out of memory", "out_of_memory",
                                          "Cannot allocate"};

bool SaysNoMemory(const std::string& what) {
  return std::any_of(std::begin(kNoMemory), std::end(kNoMemory),
                     [&](std::string_view text) { return what.find(text) != std::string::npos; });
}

// What a case needs, from its formula.
double NeededBytes(const workload::Cost& cost) { return cost.resident_bytes * kMemoryMargin + kMemoryReserve; }

std::vector<double> RoofRatios(const RoofGauge& gauge, const workload::Cost& cost,
                               const std::vector<timing::Chunk>& chunks) {
  std::vector<double> ratios;
  for (const timing::Chunk& chunk : chunks) {
    const double roof_seconds = chunk.roof_rate > 0 ? gauge.SecondsAt(cost, chunk.roof_rate) : 0;
    if (roof_seconds > 0 && chunk.median_seconds > 0) ratios.push_back(roof_seconds / chunk.median_seconds);
  }
  return ratios;
}

// The case that predicts the time of this one's step: itself, or the one that its family names.
std::pair<const Family*, Point> PredictedAs(const PlannedCase& planned) {
  if (!planned.family->predict_as()) return {planned.family, planned.point};
  const Point alike = planned.family->predict_as()(planned.point);
  return {&FamilyNamed(alike.family()), alike};
}

// The roof fraction of each phase that the cost has operations of.
std::vector<double> PhaseRoofs(const RoofGauge& gauge, const Outcome& outcome) {
  std::vector<double> roofs(outcome.phases.size());
  for (std::size_t phase = 0; phase < roofs.size(); ++phase) {
    const workload::Cost part = outcome.cost.Part(outcome.phases[phase]);
    if (part.operations.empty()) continue;
    const std::span<const double> seconds = outcome.samples.phase_seconds[phase];
    std::vector<timing::Chunk> chunks = outcome.samples.chunks;
    for (timing::Chunk& chunk : chunks) {
      chunk.median_seconds = timing::Median(
          seconds.subspan(static_cast<std::size_t>(chunk.first_sample), static_cast<std::size_t>(chunk.samples)));
    }
    const std::vector<double> ratios = RoofRatios(gauge, part, chunks);
    if (!ratios.empty()) roofs[phase] = timing::Median(ratios);
  }
  return roofs;
}

// The model's FLOPs at the measured peak of their precision, over the time of each chunk.
std::vector<double> ModelRatios(const RoofGauge& gauge, const ModelWork& model, const timing::Samples& samples) {
  std::vector<double> ratios;
  const double calibrated = gauge.peaks.flops_per_second[workload::Index(model.dtype)];
  for (const timing::Chunk& chunk : samples.chunks) {
    // The slices of a compute-bound case are slices of this peak.
    const double peak = gauge.bound == workload::Bound::kCompute && chunk.roof_rate > 0 ? chunk.roof_rate : calibrated;
    if (model.flops > 0 && peak > 0 && chunk.median_seconds > 0) {
      ratios.push_back(model.flops / peak / chunk.median_seconds);
    }
  }
  return ratios;
}

// Whether nearly every chunk ran above its roof: what a busy machine does to single slices is noise, not a wrong cost.
bool BeatsItsRoof(const std::vector<double>& ratios) {
  constexpr std::size_t kFewestChunks = 4;
  return ratios.size() >= kFewestChunks && timing::Quantile(ratios, 0.1) > kImpossibleRoof;
}

CacheState CacheStateOf(const Point& point) {
  return point.Text("cache") == "cold" ? CacheState::kCold : CacheState::kWarm;
}

}  // namespace

// The copies of a case that a cold cache rotates over (one copy where it is warm).
struct Session::Built {
  std::vector<Case> copies;
  double copy_bytes = 0;
};

Session::Session(const Options& options, Device& device, std::function<bool()> interrupted)
    : options_(options),
      device_(device),
      reference_(hardware::FindDatasheet(options.reference)),
      interrupted_(std::move(interrupted)) {}

const std::deque<Outcome>& Session::OutcomesOf(const std::string& name) const {
  static const auto* none = new std::deque<Outcome>();
  const auto found = outcomes_.find(name);
  return found == outcomes_.end() ? *none : found->second;
}

double Session::MaxStepTime(const Family& family) const {
  if (options_.max_step_time > 0) return options_.max_step_time;
  return std::max(kSuiteStepLimits[static_cast<int>(options_.suite)], family.long_step());
}

void Session::LearnStep(const PlannedCase& planned, double seconds) {
  const auto [family, point] = PredictedAs(planned);
  predictor_of(*family)->Learn(*family, point, seconds);
}

StepTimePredictor* Session::predictor_of(const Family& family) {
  return &predictors_
              .try_emplace(family.name(),
                           StepTimePredictor([this, &family](const Point& point) { return ScoutStep(family, point); }))
              .first->second;
}

absl::StatusOr<double> Session::ScoutStep(const Family& family, const Point& point) {
  if (absl::Status status = family.SupportOf(point, device_); !status.ok()) return status;
  const Fp32Scope fp32(family.CostOf(point).Flops(workload::Dtype::kTf32) > 0);
  Inputs inputs(device_, options_.seed, point.Name());
  const absl::StatusOr<Case> built = family.BuildAt(point, inputs);
  if (!built.ok()) return built.status();
  const at::AutoGradMode grad(built->autograd);
  // The fastest: one disturbance must not keep a case from running.
  return QuickSamples([&](timing::PhaseMarker& marker) { built->step(marker); }, static_cast<int>(built->phases.size()))
      .min;
}

timing::Summary Session::QuickSamples(const timing::Step& step, int phases) {
  timing::SampleOptions few;
  few.warmup_iters = 1;
  few.min_samples = 3;
  few.max_samples = 20;
  few.max_time = 0.02;
  few.max_warmup_time = 0.01;
  few.max_wall = 1;
  return timing::Summarize(timing::TakeSamples(device_.clock(), step, phases, nullptr, few).seconds);
}

absl::Status Session::Admit(const PlannedCase& planned, const workload::Cost& cost) {
  for (const workload::Dtype dtype : workload::kDtypes) {
    if (cost.Flops(dtype) <= 0) continue;
    if (absl::Status status = device_.Supports(dtype); !status.ok()) return status;
  }
  if (absl::Status status = planned.family->SupportOf(planned.point, device_); !status.ok()) return status;
  if (!options_.unverified) {
    if (absl::Status status = CheckVerified(planned.point, device_.kind()); !status.ok()) return status;
  }
  if (free_bytes_ > 0 && NeededBytes(cost) > free_bytes_) {
    return absl::ResourceExhaustedError("needs more memory than is free");
  }
  const double limit = MaxStepTime(*planned.family);
  if (WorkOf(cost) / kCrawl <= limit) return absl::OkStatus();
  const double roof_seconds = workload::RoofSeconds(cost, device_.MeasuredPeaks()).value_or(limit);
  if (planned.family->long_step() > 0 && roof_seconds < kLongStepRoof * limit) return absl::OkStatus();
  const auto [family, point] = PredictedAs(planned);
  const std::optional<double> predicted = predictor_of(*family)->Predict(*family, point);
  if (predicted && *predicted > limit) {
    return absl::DeadlineExceededError(absl::StrCat(
        "a step is predicted to take ", HumanTime(*predicted), ", above the ", HumanTime(limit), " of ",
        options_.max_step_time > 0 ? "--max_step_time" : "its suite", " (raise --max_step_time to run it)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Session::Built> Session::BuildAndCheck(const PlannedCase& planned, Outcome& outcome) {
  Built built;
  Inputs inputs(device_, options_.seed, planned.name);
  observe::PeakMemory memory;
  absl::StatusOr<Case> first = planned.family->BuildAt(planned.point, inputs);
  if (!first.ok()) return first.status();
  if (!first->result || !first->reference) {
    return absl::InternalError("the case gives no result and reference, so that nothing proves it right");
  }
  built.copy_bytes = inputs.bytes();
  built.copies.push_back(*std::move(first));
  const Case& one = built.copies.front();
  if (one.warmup_iters) return built;  // its first step belongs to the samples
  {
    const at::AutoGradMode grad(one.autograd);
    IgnoredPhases ignored;
    memory.ResetPeak();
    one.step(ignored);
    outcome.peak_memory_bytes = memory.PeakBytes() + one.shared_bytes;
  }
  if (options_.check) {
    const at::AutoGradMode grad(one.autograd);
    if (absl::Status status = CheckCase(one, tamper_); !status.ok()) return status;
  }
  if (CacheStateOf(planned.point) == CacheState::kCold && built.copy_bytes > 0) {
    const double wanted = std::ceil(kCacheTurnover * device_.LastLevelCacheBytes() / built.copy_bytes);
    const double affordable = std::floor(kCloneShare * device_.FreeMemoryBytes() / built.copy_bytes);
    const auto copies = static_cast<int64_t>(std::clamp(std::min(wanted, affordable), 1.0, double{kMostClones}));
    for (int64_t i = 1; i < copies; ++i) {
      inputs.StartClone();
      absl::StatusOr<Case> clone = planned.family->BuildAt(planned.point, inputs);
      if (!clone.ok()) return clone.status();
      built.copies.push_back(*std::move(clone));
    }
  }
  return built;
}

void Session::SampleUnthrottled(const Case& one, const timing::Step& step, const timing::RoofSlice& slice,
                                Outcome& outcome) {
  timing::SampleOptions sampling = options_.sampling;
  sampling.least_samples = one.least_samples;
  // Where a step takes seconds, the one that was checked has warmed everything up but the caches.
  if (!sampling.warmup_iters && sampling.least_samples > 1) sampling.warmup_iters = 1;
  if (one.warmup_iters) sampling.warmup_iters = one.warmup_iters;
  for (int attempt = 0;; ++attempt) {
    ConditionsWatch watch(device_);
    sampling.interrupted = [&] {
      watch.Poll();
      return interrupted_ && interrupted_();
    };
    std::optional<observe::Range> part;
    part.emplace("warm-up");
    sampling.warmed_up = [&part] {
      part.reset();
      part.emplace("measure");
    };
    outcome.samples =
        timing::TakeSamples(device_.clock(), step, static_cast<int>(outcome.phases.size()), slice, sampling);
    part.reset();
    outcome.conditions = watch.Finish();
    if (!outcome.conditions.throttled || attempt == kThermalRetries || (interrupted_ && interrupted_())) return;
    device_.WaitUntilCool();
  }
}

absl::Status Session::Measure(const PlannedCase& planned, Outcome& outcome) {
  outcome.cost = planned.family->CostOf(planned.point);
  if (absl::Status status = Admit(planned, outcome.cost); !status.ok()) return status;
  const Fp32Scope fp32(outcome.cost.Flops(workload::Dtype::kTf32) > 0);
  const observe::ProcessMemory process;
  // What cases of this family share is part of the prediction, or makes room.
  const double other_bytes = process.bytes_before() - SharedOperands::bytes();
  absl::StatusOr<Built> built = BuildAndCheck(planned, outcome);
  if (!built.ok()) return built.status();
  std::vector<Case>& copies = built->copies;
  if (copies.front().cost) outcome.cost = *copies.front().cost;
  outcome.phases = copies.front().phases;
  outcome.parameters = copies.front().parameters;

  const CacheState cache = CacheStateOf(planned.point);
  const RoofGauge gauge = device_.Gauge(outcome.cost, cache);
  outcome.roof_name = gauge.name;
  const at::AutoGradMode grad(copies.front().autograd);
  std::size_t next = 0;
  const timing::Step own_step = [&](timing::PhaseMarker& marker) {
    const observe::Range range("step");
    copies[next].step(marker);
    if (++next == copies.size()) next = 0;
  };
  std::function<void()> planted_work;
  if (options_.plant_slowdown > 0) {
    planted_work = device_.ExtraWork(options_.plant_slowdown *
                                     QuickSamples(own_step, static_cast<int>(outcome.phases.size())).median);
  }
  const timing::Step slowed_step = [&](timing::PhaseMarker& marker) {
    planted_work();
    own_step(marker);
  };
  const timing::Step& step = planted_work ? slowed_step : own_step;
  SampleUnthrottled(copies.front(), step, gauge.slice, outcome);
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.roof_ratios = RoofRatios(gauge, outcome.cost, outcome.samples.chunks);
  outcome.phase_roofs = PhaseRoofs(gauge, outcome);
  outcome.model = copies.front().model;
  outcome.model_ratios = ModelRatios(gauge, outcome.model, outcome.samples);
  if (copies.front().warmup_iters && options_.check) {
    if (absl::Status status = CheckCase(copies.front(), tamper_); !status.ok()) return status;
  }
  if (copies.front().finish) {
    if (absl::Status status = copies.front().finish(); !status.ok()) return status;
  }
  // The formula knows nothing of the copies that a cold cache rotates over.
  if (cache == CacheState::kWarm && device_.kind() == "cpu" && outcome.cost.resident_bytes > 0) {
    outcome.process_bytes = process.PeakBytes();
    // What makes room for this case was still there when it began.
    if (outcome.process_bytes) {
      outcome.predicted_process_bytes = std::max(process.bytes_before(), other_bytes + outcome.cost.resident_bytes);
    }
  }
  for (const auto& [name, figure] : copies.front().figures) outcome.figures.emplace_back(name, figure());
  LearnStep(planned, outcome.summary.min);
  outcome.counters = ComputeCounters({outcome, device_, *reference_});
  if (cache == CacheState::kCold && !IsNoisy(outcome) && BeatsItsRoof(outcome.roof_ratios)) {
    return absl::DataLossError(absl::StrCat("the case ran at ", timing::Median(outcome.roof_ratios),
                                            " of the measured ", outcome.roof_name,
                                            " roof, which cannot be: its cost or the probe is wrong"));
  }
  return absl::OkStatus();
}

void Session::Restore(std::vector<Outcome> finished) {
  for (Outcome& outcome : finished) {
    std::pair<std::string, int> key(outcome.name, outcome.repetition);
    restored_.insert_or_assign(std::move(key), std::move(outcome));
  }
}

bool Session::TakeRestored(const PlannedCase& planned, Outcome& outcome) {
  const auto found = restored_.find({outcome.name, outcome.repetition});
  if (found == restored_.end()) return false;
  outcome = std::move(found->second);
  restored_.erase(found);
  if (outcome.verdict == Verdict::kMeasured) {
    // Later cases are predicted from this one, as if it had run here.
    LearnStep(planned, outcome.summary.min);
  }
  return true;
}

std::string Session::MemoryNote(const Outcome& outcome) const {
  return absl::StrCat(" (memory: ", HumanBytes(NeededBytes(outcome.cost)), " predicted, ", HumanBytes(free_bytes_),
                      " free)");
}

const Outcome& Session::Run(const PlannedCase& planned) {
  Outcome outcome;
  outcome.name = planned.name;
  SharedOperands::Enter(planned.family->name());
  outcome.repetition = static_cast<int>(OutcomesOf(planned.name).size());
  // What cases of this family share is part of the prediction, or makes room.
  free_bytes_ = device_.FreeMemoryBytes() + SharedOperands::bytes();
  const auto end = [&](Verdict verdict, std::string reason) {
    outcome.verdict = verdict;
    outcome.reason = std::move(reason);
  };
  const bool restored = TakeRestored(planned, outcome);
  if (restored) {
    // It has its verdict.
  } else if (interrupted_ && interrupted_()) {
    end(Verdict::kInterrupted, "interrupted before it ran");
  } else {
    try {
      const absl::Status status = Measure(planned, outcome);
      // What the machine cannot do is skipped; what went wrong has failed.
      const bool skipped = status.code() == absl::StatusCode::kUnimplemented ||
                           status.code() == absl::StatusCode::kResourceExhausted ||
                           status.code() == absl::StatusCode::kDeadlineExceeded;
      if (!status.ok()) end(skipped ? Verdict::kSkipped : Verdict::kFailed, std::string(status.message()));
    } catch (const c10::OutOfMemoryError& error) {
      end(Verdict::kSkipped, absl::StrCat("out of memory: ", FirstLine(error.what_without_backtrace())));
    } catch (const std::bad_alloc&) {
      end(Verdict::kSkipped, "out of memory");
    } catch (const std::exception& error) {
      const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
      const std::string what = FirstLine(torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
      if (SaysNoMemory(what)) {
        end(Verdict::kSkipped, absl::StrCat("out of memory: ", what));
      } else {
        end(Verdict::kFailed, what);
      }
    } catch (...) {
      end(Verdict::kFailed, "threw something that is no std::exception");
    }
    if (outcome.verdict == Verdict::kSkipped) outcome.reason += MemoryNote(outcome);
  }
  try {
    device_.AfterCase();
  } catch (const std::exception& error) {
    if (outcome.verdict == Verdict::kMeasured) end(Verdict::kFailed, FirstLine(error.what()));
  }
  if (outcome.verdict == Verdict::kFailed) ++failed_;
  std::deque<Outcome>& outcomes = outcomes_[planned.name];
  outcomes.push_back(std::move(outcome));
  if (finished_ && !restored) finished_(planned, outcomes.back());
  return outcomes.back();
}

}  // namespace roofbench
