// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/cpu_roof_meter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "lib/hardware/roofs/bursts.h"
#include "lib/hardware/roofs/compute_loops.h"
#include "lib/hardware/roofs/resting_threads.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::hardware {
namespace {

using workload::Dtype;

constexpr double kCacheTrialSeconds = 0.0003;  // the best of three, for each variant
constexpr int kCacheTrials = 3;
constexpr double kLoopLeadShare = 0.1;  // of a probe, untimed: wakes the threads and settles the clock

constexpr double kFirstTraffic = 16 << 20;  // bytes for each thread, to estimate a stream's rate
constexpr double kFirstFlops = 1e7;         // for each thread, to estimate a loop's rate

// The last observed rate, which converts a wanted time into an amount of work.
class Pace {
 public:
  // `measure(work, bursts)` returns Rates. `first_work` yields the first estimate.
  template <typename Measure>
  double Run(double seconds, double first_work, Measure measure) {
    if (expected_ <= 0) expected_ = measure(first_work, 1).cpu;
    const Rates rates = measure(expected_ * seconds, BurstsIn(seconds));
    expected_ = rates.cpu;
    return rates.wall;
  }

 private:
  double expected_ = 0;
};

Rates MeasureLoop(const ComputeLoop& loop, double flops, int bursts, int threads) {
  const double iterations = flops / loop.flops_per_iteration / threads;
  const auto run = [&](double wanted) {
    const int64_t count = std::max(int64_t{1}, static_cast<int64_t>(wanted));
    return RunBurst(static_cast<double>(count) * loop.flops_per_iteration * threads, threads,
                    [&](int) { loop.run(count); });
  };
  run(kLoopLeadShare * iterations);
  return MedianOfBursts(bursts, [&] { return run((1 - kLoopLeadShare) * iterations / bursts); });
}

// The variants of one kind, by their place in StreamVariants.
std::vector<std::size_t> VariantsOf(StreamKind kind) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < StreamVariants().size(); ++i) {
    if (StreamVariants()[i].kind == kind) indices.push_back(i);
  }
  return indices;
}

}  // namespace

CpuRoofMeter::CpuRoofMeter(CpuFacts facts, int threads)
    : RoofMeter(/*roof_by_roof=*/false),
      facts_(std::move(facts)),
      threads_(threads),
      memory_(facts_.LastLevelCacheBytes(), threads) {
  for (const StreamKind kind : kStreamKinds) best_streams_[Index(kind)] = &StreamVariants()[VariantsOf(kind).front()];
}

std::vector<Candidate> CpuRoofMeter::StreamCandidates(StreamKind kind) {
  std::vector<Candidate> candidates;
  for (const std::size_t index : VariantsOf(kind)) {
    const StreamVariant* const variant = &StreamVariants()[index];
    candidates.push_back({.roof = std::string(Name(kind)),
                          .variant = std::string(variant->name),
                          .measure =
                              [this, variant, pace = Pace()](double seconds) mutable {
                                const StreamOfMix all[] = {{variant, 1}};
                                return pace.Run(seconds, kFirstTraffic * threads_, [&](double traffic, int bursts) {
                                  return memory_.MeasureMemory(all, traffic, bursts, threads_);
                                });
                              },
                          .index = index});
  }
  return candidates;
}

std::vector<Candidate> CpuRoofMeter::ComputeCandidates(Dtype dtype) {
  std::vector<Candidate> candidates;
  for (const ComputeLoop& loop : ComputeLoops()) {
    if (loop.dtype != dtype) continue;
    candidates.push_back({.roof = std::string(workload::Name(dtype)),
                          .variant = std::string(loop.name),
                          .measure = [&loop, threads = threads_, pace = Pace()](double seconds) mutable {
                            return pace.Run(seconds, kFirstFlops * threads, [&](double flops, int bursts) {
                              return MeasureLoop(loop, flops, bursts, threads);
                            });
                          }});
  }
  return candidates;
}

bool CpuRoofMeter::OthersRun() {
  if (pool_threads_.empty()) {
    pool_threads_.resize(static_cast<std::size_t>(threads_));
    kernels::ThreadPool(threads_).OnEach(
        [&](int thread) { pool_threads_[static_cast<std::size_t>(thread)] = gettid(); });
  }
  return hardware::OthersRun(pool_threads_);
}

void CpuRoofMeter::Choose(StreamKind kind, const Candidate& winner) {
  best_streams_[Index(kind)] = &StreamVariants()[winner.index];
}

Rates CpuRoofMeter::MeasureStreams(const StreamShares& shares, double seconds) {
  workload::Peaks rates = peaks();
  std::vector<StreamOfMix> mix;
  double seconds_per_byte = 0;
  for (const StreamKind kind : kStreamKinds) {
    const double share = shares[Index(kind)];
    if (share <= 0) continue;
    mix.push_back({best_streams_[Index(kind)], share});
    seconds_per_byte += share / Rate(rates, kind);
  }
  const double traffic = memory_pace_ * seconds / seconds_per_byte;
  const Rates measured = memory_.MeasureMemory(mix, traffic, BurstsIn(seconds), threads_);
  memory_pace_ = measured.cpu * seconds_per_byte;
  return measured;
}

double CpuRoofMeter::MeasureStreamsInCache(const StreamShares& shares, double working_set_bytes, double seconds) {
  std::vector<StreamOfMix> mix;
  for (const StreamKind kind : kStreamKinds) {
    const double share = shares[Index(kind)];
    if (share > 0) mix.push_back({BestInCache(kind, working_set_bytes), share});
  }
  return memory_.MeasureCache(mix, working_set_bytes, seconds, threads_);
}

// Caches need their own choice: streaming stores, the fastest way to memory, bypass them.
const StreamVariant* CpuRoofMeter::BestInCache(StreamKind kind, double working_set_bytes) {
  const StreamVariant*& best = cache_streams_[{kind, working_set_bytes}];
  if (best != nullptr) return best;
  double top = 0;
  for (const std::size_t index : VariantsOf(kind)) {
    const StreamVariant* const variant = &StreamVariants()[index];
    const StreamOfMix all[] = {{variant, 1}};
    double rate = 0;
    for (int i = 0; i < kCacheTrials; ++i) {
      rate = std::max(rate, memory_.MeasureCache(all, working_set_bytes, kCacheTrialSeconds, threads_));
    }
    if (rate <= top) continue;
    top = rate;
    best = variant;
  }
  return best;
}

}  // namespace roofbench::hardware
