// SPDX-License-Identifier: Apache-2.0
#include "lib/run/built_case.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <utility>

#include "lib/device/gpu.h"
#include "lib/hardware/roofs/bursts.h"
#include "lib/observe/peak_memory.h"
#include "lib/suite/check.h"
#include "lib/suite/inputs.h"
#include "lib/suite/operand_cache.h"
#include "lib/timing/sampler.h"

namespace roofbench {
namespace {

constexpr int64_t kMostClones = 4096;  // each is built like the first
constexpr double kColdCaches =
    16;  // copies fill the last-level cache this many times, so next to nothing survives a round
constexpr double kLeastCaches = 4;  // with fewer, the cache is displaced between rounds
// Share of the peak that justifies another step.
constexpr double kVisible = 0.01;
// Share of the free memory that clones may take.
constexpr double kCloneShare = 0.25;

int64_t CopiesFor(double copy_bytes, const Device& device) {
  if (copy_bytes <= 0) return 1;
  const double wanted = std::ceil(kColdCaches * device.LastLevelCacheBytes() / copy_bytes);
  const double affordable = std::floor(kCloneShare * device.FreeMemoryBytes() / copy_bytes);
  return static_cast<int64_t>(std::clamp(std::min(wanted, affordable), 1.0, double{kMostClones}));
}

// Host memory that LibTorch has allocated and not yet freed.
class LiveMemory {
 public:
  observe::PeakMemory::Listener Listener(observe::PeakMemory::Listener other) {
    return [this, other = std::move(other)](const void* address, int64_t bytes) {
      if (bytes > 0) {
        bytes_[address] = bytes;
      } else {
        bytes_.erase(address);
      }
      if (other) other(address, bytes);
    };
  }

  std::vector<hardware::MemoryRange> Ranges() const {
    std::vector<hardware::MemoryRange> ranges;
    for (const auto& [address, bytes] : bytes_) {
      ranges.push_back({static_cast<const std::byte*>(address), static_cast<std::size_t>(bytes)});
    }
    return ranges;
  }

 private:
  std::map<const void*, int64_t> bytes_;
};

}  // namespace

OperandSample SampleOfChanging(const Case& one, std::mt19937_64& random) {
  if (one.prepare) return {};
  OperandSample sample(one.changing(), random);
  sample.Leave(WholeResult(one));
  return sample;
}

absl::StatusOr<BuiltCase> BuildCase(const PlannedCase& planned, const RunOptions& options, Device& device,
                                    MemorySnapshot* snapshot, bool sampled, RankTeam* team,
                                    const std::function<bool()>& interrupted) {
  // Ranks that do not end together wait for each other.
  const auto ends = [&] { return team == nullptr && interrupted && interrupted(); };
  const absl::Status ended = absl::CancelledError("interrupted before it was measured");
  BuiltCase built;
  Inputs inputs(device, options.seed, planned.name, options.compile);
  if (team != nullptr) inputs.SetGroup(team->group());
  OperandCache::BeginMeasurement();
  LiveMemory live;
  observe::PeakMemory memory(live.Listener(snapshot != nullptr ? snapshot->Listener() : nullptr));
  absl::StatusOr<Case> first = planned.family->BuildAt(planned.point, inputs);
  if (team != nullptr) {
    if (absl::Status status = team->Agree(first.status()); !status.ok()) return status;
  }
  if (!first.ok()) return first.status();
  if (ends()) return ended;
  if (!first->result || (!first->reference && !first->reference_rows)) {
    return absl::InternalError("the case has no result and reference to check it by");
  }
  built.copies.push_back(*std::move(first));
  const Case& one = built.copies.front();
  if (one.warmup_iters && !sampled) return built;
  const double copy_bytes = inputs.bytes();
  std::mt19937_64 random{std::random_device()()};
  if (options.check && one.changing) built.read = OperandSample(inputs.operands(), random);
  {
    const at::AutoGradMode grad(one.autograd);
    timing::IgnoredPhases ignored;
    const auto step = [&] {
      if (one.prepare) one.prepare();
      memory.ResetPeak();
      if (snapshot != nullptr) {
        snapshot->Step(one);
      } else {
        one.step(ignored);
      }
      return memory.PeakBytes();
    };
    const double before = observe::PeakMemory::BytesNow().value_or(0);
    double peak = step();
    // State that an optimizer creates in its first step exists from the start of every later one.
    bool has_grown = observe::PeakMemory::BytesNow().value_or(0) > before + kVisible * peak;
    if (team != nullptr) has_grown = team->Any(has_grown);
    if (ends()) return ended;
    if (one.autograd && has_grown) peak = std::max(peak, step());
    built.peak_memory_bytes = peak + one.shared_bytes;
    // Launching a graph allocates nothing: its intermediates were allocated when it was recorded.
    if (device.gpu() != nullptr) built.peak_memory_bytes += device.gpu()->GraphBytes();
    if (snapshot != nullptr) snapshot->Finish(one, one.shared_bytes);
    if (planned.point.IsCold() && device.evictor() != nullptr) built.operands = live.Ranges();
    if (ends()) return ended;
    if (options.check) {
      if (one.changing) {
        built.read.Leave(WholeResult(one));
        if (one.effects) built.read.Leave(one.effects().updated);
      }
      absl::Status status = built.read.CheckUnchanged();
      if (status.ok()) {
        const double begin = hardware::WallSeconds();
        status = CheckCase(one, {}, &built.unseen);
        built.check_seconds = hardware::WallSeconds() - begin;
      }
      if (one.changing) {
        built.read.Leave(one.changing());
        built.changing = SampleOfChanging(one, random);
      }
      if (team != nullptr) status = team->Agree(std::move(status));
      if (!status.ok()) return status;
    }
    if (ends()) return ended;
  }
  const bool rotates = planned.point.IsCold() && device.evictor() == nullptr;
  const int64_t copies = rotates && team == nullptr ? CopiesFor(copy_bytes, device) : 1;
  const double filled = static_cast<double>(copies) * copy_bytes;
  if (rotates && team == nullptr && filled > 0 && filled < kLeastCaches * device.LastLevelCacheBytes()) {
    built.displaces = true;
    if (absl::Status status = device.DisplaceCache(); !status.ok()) return status;
  }
  for (int64_t i = 1; i < copies; ++i) {
    inputs.StartClone();
    absl::StatusOr<Case> clone = planned.family->BuildAt(planned.point, inputs);
    if (!clone.ok()) return clone.status();
    built.copies.push_back(*std::move(clone));
  }
  return built;
}

}  // namespace roofbench
