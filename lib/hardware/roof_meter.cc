#include "lib/hardware/roof_meter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "lib/hardware/compute_loops.h"
#include "lib/hardware/memory_probe.h"
#include "lib/hardware/pieces.h"

namespace roofbench::hardware {
namespace {

using workload::Dtype;

constexpr StreamKind kStreamKinds[] = {StreamKind::kRead, StreamKind::kCopy, StreamKind::kUpdate, StreamKind::kWrite};
constexpr std::size_t kStreamKindCount = std::size(kStreamKinds);

// A reading is the second-best of five rounds. The best would be taken in by one lucky slice; a median would report the
// slow state of a shared machine, which lasts from milliseconds to minutes, whenever it meets three rounds of five.
constexpr int kRounds = 5;
constexpr std::size_t kCountedFromBest = 1;
// Rates closer than this are equal: noise must not choose between variants. Of equals, the fastest on one thread wins:
// where a slow state of the memory levels all variants, a thread's own rate still tells them apart.
constexpr double kTie = 0.03;
constexpr double kCacheTrialSeconds = 0.0003;  // the best of three, for each variant
constexpr int kCacheTrials = 3;
constexpr double kUncalibratedSeconds = 0.005;  // for each variant, where a measurement comes before Calibrate
constexpr double kNegligibleShare = 0.02;       // of a mix's traffic
constexpr double kLoopLeadShare = 0.1;          // of a slice, untimed: wakes the threads and settles the clock

constexpr double kFirstTraffic = 16 << 20;  // bytes for each thread, to learn a stream's pace
constexpr double kFirstFlops = 1e7;         // for each thread, to learn a loop's pace

// The rate last seen, by which a wanted time becomes an amount of work.
class Pace {
 public:
  // `measure(work, pieces)` returns Rates. `first_work` finds out about the first one.
  template <typename Measure>
  double Run(double seconds, double first_work, Measure measure) {
    if (expected_ <= 0) expected_ = measure(first_work, 1).cpu;
    const Rates rates = measure(expected_ * seconds, PiecesIn(seconds));
    expected_ = rates.cpu;
    return rates.wall;
  }

 private:
  double expected_ = 0;
};

// One way to reach a roof.
struct Contender {
  std::string roof;
  std::string variant;
  std::function<double(double seconds, int threads)> measure;
  bool runs_alone = true;  // can be measured on one thread
  double alone = 0;        // rate of one thread
  double together = 0;     // rate of the team
};

double CountedRate(std::vector<double> rates) {
  std::ranges::sort(rates, std::greater<>());
  return rates[std::min(kCountedFromBest, rates.size() - 1)];
}

void Compete(std::vector<Contender>& contenders, double seconds_each, int threads) {
  std::vector<std::vector<double>> alone(contenders.size());
  std::vector<std::vector<double>> together(contenders.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const Contender& contender = contenders[i];
      if (contender.runs_alone && threads > 1) alone[i].push_back(contender.measure(seconds_each / kRounds, 1));
      together[i].push_back(contender.measure(seconds_each / kRounds, threads));
    }
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    contenders[i].together = CountedRate(together[i]);
    if (contenders[i].runs_alone) contenders[i].alone = threads > 1 ? CountedRate(alone[i]) : contenders[i].together;
  }
}

// The fastest of the contenders for one roof; nullptr if none reaches anything.
const Contender* Winner(std::span<const Contender> contenders, std::string_view roof) {
  double top = 0;
  for (const Contender& contender : contenders) {
    if (contender.roof == roof) top = std::max(top, contender.together);
  }
  const Contender* winner = nullptr;
  for (const Contender& contender : contenders) {
    if (contender.roof != roof || contender.together <= 0 || contender.together < (1 - kTie) * top) continue;
    if (winner == nullptr || contender.alone > winner->alone) winner = &contender;
  }
  return winner;
}

Rates MeasureLoop(const ComputeLoop& loop, double flops, int pieces, int threads) {
  const double iterations = flops / loop.flops_per_iteration / threads;
  const auto run = [&](double wanted) {
    const int64_t count = std::max(int64_t{1}, static_cast<int64_t>(wanted));
    return RunPiece(static_cast<double>(count) * loop.flops_per_iteration * threads, threads,
                    [&](int) { loop.run(count); });
  };
  run(kLoopLeadShare * iterations);
  return MedianOfPieces(pieces, [&] { return run((1 - kLoopLeadShare) * iterations / pieces); });
}

std::size_t Index(StreamKind kind) { return static_cast<std::size_t>(kind); }

double& Rate(workload::Peaks& peaks, StreamKind kind) {
  return *std::array<double*, kStreamKindCount>{&peaks.read, &peaks.copy, &peaks.update, &peaks.write}[Index(kind)];
}

double Traffic(const RoofMeter::Mix& mix, StreamKind kind) {
  return std::array<double, kStreamKindCount>{mix.read, mix.copy, mix.update, mix.write}[Index(kind)];
}

}  // namespace

struct RoofMeter::State {
  State(CpuFacts cpu, int team) : facts(std::move(cpu)), threads(team), memory(facts.LastLevelCacheBytes(), team) {
    for (const StreamKind kind : kStreamKinds) best_streams[Index(kind)] = VariantsOf(kind).front();
  }

  static std::vector<const StreamVariant*> VariantsOf(StreamKind kind) {
    std::vector<const StreamVariant*> variants;
    for (const StreamVariant& variant : StreamVariants()) {
      if (variant.kind == kind) variants.push_back(&variant);
    }
    return variants;
  }

  std::vector<Contender> StreamContenders() {
    std::vector<Contender> contenders;
    for (const StreamKind kind : kStreamKinds) {
      for (const StreamVariant* variant : VariantsOf(kind)) {
        contenders.push_back(
            {.roof = std::string(Name(kind)),
             .variant = std::string(variant->name),
             .measure = [this, variant, paces = std::map<int, Pace>()](double seconds, int team) mutable {
               const StreamShare all[] = {{variant, 1}};
               return paces[team].Run(seconds, kFirstTraffic * team, [&](double traffic, int pieces) {
                 return memory.MeasureMemory(all, traffic, pieces, team);
               });
             }});
      }
    }
    return contenders;
  }

  std::vector<Contender> ComputeContenders(Dtype dtype) const {
    std::vector<Contender> contenders;
    const std::string roof(workload::Name(dtype));
    for (const ComputeLoop& loop : ComputeLoops()) {
      if (loop.dtype != dtype) continue;
      contenders.push_back({.roof = roof,
                            .variant = std::string(loop.name),
                            .measure = [&loop, paces = std::map<int, Pace>()](double seconds, int team) mutable {
                              return paces[team].Run(seconds, kFirstFlops * team, [&](double flops, int pieces) {
                                return MeasureLoop(loop, flops, pieces, team);
                              });
                            }});
    }
    for (const NamedProbe& named : probes) {
      if (named.dtype != dtype) continue;
      contenders.push_back({.roof = roof,
                            .variant = named.name,
                            .measure = [probe = named.probe](double seconds, int) { return probe(seconds); },
                            .runs_alone = false});
    }
    return contenders;
  }

  void Calibrate(bool streams, const std::vector<Dtype>& dtypes, double seconds_each) {
    std::vector<Contender> contenders;
    if (streams) contenders = StreamContenders();
    for (const Dtype dtype : dtypes) std::ranges::move(ComputeContenders(dtype), std::back_inserter(contenders));
    Compete(contenders, seconds_each, threads);
    if (streams) {
      streams_known = true;
      for (const StreamKind kind : kStreamKinds) {
        const Contender* winner = Winner(contenders, Name(kind));
        for (const StreamVariant* variant : VariantsOf(kind)) {
          if (variant->name == winner->variant) best_streams[Index(kind)] = variant;
        }
        Rate(peaks, kind) = winner->together;
      }
    }
    for (const Dtype dtype : dtypes) {
      const Contender* winner = Winner(contenders, workload::Name(dtype));
      compute_known[workload::Index(dtype)] = true;
      compute[workload::Index(dtype)] = winner == nullptr ? nullptr : winner->measure;
      peaks.flops_per_second[workload::Index(dtype)] = winner == nullptr ? 0 : winner->together;
    }
    Report(contenders);
  }

  // Replaces the readings of the roofs that were measured.
  void Report(const std::vector<Contender>& contenders) {
    for (const Contender& contender : contenders) {
      std::erase_if(readings, [&](const RoofReading& reading) { return reading.roof == contender.roof; });
    }
    for (const Contender& contender : contenders) {
      if (contender.runs_alone && threads > 1) {
        readings.push_back(
            {.roof = contender.roof, .variant = contender.variant, .threads = 1, .rate = contender.alone});
      }
      readings.push_back({.roof = contender.roof,
                          .variant = contender.variant,
                          .threads = threads,
                          .rate = contender.together,
                          .best = &contender == Winner(contenders, contender.roof)});
    }
  }

  void KnowStreams() {
    if (!streams_known) Calibrate(true, {}, kUncalibratedSeconds);
  }

  // The streams of a mix by `variant_of(kind)`, without those that hardly count. Empty if nothing moves.
  template <typename VariantOf>
  static std::vector<StreamShare> SharesOf(const Mix& mix, VariantOf variant_of) {
    double total = 0;
    for (const StreamKind kind : kStreamKinds) total += Traffic(mix, kind);
    std::vector<StreamShare> shares;
    double counted = 0;
    for (const StreamKind kind : kStreamKinds) {
      const double share = total > 0 ? Traffic(mix, kind) / total : 0;
      if (share < kNegligibleShare) continue;
      shares.push_back({variant_of(kind), share});
      counted += share;
    }
    for (StreamShare& share : shares) share.share /= counted;
    return shares;
  }

  // Caches have winners of their own: streaming stores, the fastest way to memory, go past them.
  const StreamVariant* BestInCache(StreamKind kind, double working_set_bytes) {
    const StreamVariant*& best = cache_streams[{kind, working_set_bytes}];
    if (best != nullptr) return best;
    double top = 0;
    for (const StreamVariant* variant : VariantsOf(kind)) {
      const StreamShare all[] = {{variant, 1}};
      double rate = 0;
      for (int i = 0; i < kCacheTrials; ++i) {
        rate = std::max(rate, memory.MeasureCache(all, working_set_bytes, kCacheTrialSeconds, threads));
      }
      if (rate <= top) continue;
      top = rate;
      best = variant;
    }
    return best;
  }

  struct NamedProbe {
    Dtype dtype;
    std::string name;
    ComputeProbe probe;
  };

  CpuFacts facts;
  int threads;
  MemoryProbe memory;
  std::vector<NamedProbe> probes;
  workload::Peaks peaks;
  std::vector<RoofReading> readings;
  bool streams_known = false;
  std::array<const StreamVariant*, kStreamKindCount> best_streams{};
  std::map<std::pair<StreamKind, double>, const StreamVariant*> cache_streams;
  double memory_speed = 1;  // last seen, as a factor of the calibrated rates
  std::array<bool, workload::kDtypeCount> compute_known{};
  std::array<std::function<double(double seconds, int threads)>, workload::kDtypeCount> compute;
};

RoofMeter::RoofMeter(CpuFacts facts, int threads) : state_(std::make_unique<State>(std::move(facts), threads)) {}

RoofMeter::~RoofMeter() = default;

void RoofMeter::AddComputeProbe(Dtype dtype, std::string name, ComputeProbe probe) {
  state_->probes.push_back({dtype, std::move(name), std::move(probe)});
}

void RoofMeter::Calibrate(const std::vector<Dtype>& dtypes, double seconds_each) {
  std::vector<Dtype> distinct = dtypes;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  state_->Calibrate(true, distinct, seconds_each);
}

const workload::Peaks& RoofMeter::peaks() const { return state_->peaks; }

const std::vector<RoofReading>& RoofMeter::readings() const { return state_->readings; }

const StreamVariant& RoofMeter::BestStream(StreamKind kind) const { return *state_->best_streams[Index(kind)]; }

double RoofMeter::LastLevelCacheBytes() const { return state_->facts.LastLevelCacheBytes(); }

double RoofMeter::MeasureMemory(const Mix& mix, double seconds) {
  state_->KnowStreams();
  const std::vector<StreamShare> shares =
      State::SharesOf(mix, [&](StreamKind kind) { return state_->best_streams[Index(kind)]; });
  if (shares.empty()) return 0;
  double seconds_per_byte = 0;
  for (const auto& [variant, share] : shares) seconds_per_byte += share / Rate(state_->peaks, variant->kind);
  const double traffic = state_->memory_speed * seconds / seconds_per_byte;
  const Rates rates = state_->memory.MeasureMemory(shares, traffic, PiecesIn(seconds), state_->threads);
  state_->memory_speed = rates.cpu * seconds_per_byte;
  return rates.wall;
}

double RoofMeter::MeasureCache(const Mix& mix, double working_set_bytes, double seconds) {
  if (working_set_bytes <= 0) return 0;
  const std::vector<StreamShare> shares =
      State::SharesOf(mix, [&](StreamKind kind) { return state_->BestInCache(kind, working_set_bytes); });
  if (shares.empty()) return 0;
  return state_->memory.MeasureCache(shares, working_set_bytes, seconds, state_->threads);
}

double RoofMeter::CacheWorkingSet(double bytes) const {
  for (const CacheLevel& level : state_->facts.caches) {
    const double offered = level.bytes * std::min(state_->threads, level.instances);
    if (bytes <= offered) return offered / 2;
  }
  return 0;
}

double RoofMeter::MeasureCompute(Dtype dtype, double seconds) {
  const std::size_t index = workload::Index(dtype);
  if (!state_->compute_known[index]) state_->Calibrate(false, {dtype}, kUncalibratedSeconds);
  return state_->compute[index] ? state_->compute[index](seconds, state_->threads) : 0;
}

}  // namespace roofbench::hardware
