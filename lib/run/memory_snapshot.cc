// SPDX-License-Identifier: Apache-2.0
#include "lib/run/memory_snapshot.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/files.h"
#include "lib/device/gpu.h"
#include "lib/observe/memory/snapshot_pickle.h"
#include "lib/observe/ranges.h"
#include "lib/run/profiling.h"

namespace roofbench {
namespace {

using observe::MemoryEvent;
using observe::MemoryHistory;
using observe::MemoryPhase;

constexpr std::size_t kMostEvents = 100'000;

// Converts the times of phases to the index of the first event at or after each.
void IndexByTime(MemoryHistory& history) {
  const auto index = [&](std::size_t& time) {
    const auto found =
        std::lower_bound(history.events.begin(), history.events.end(), static_cast<int64_t>(time),
                         [](const MemoryEvent& event, int64_t microseconds) { return event.time_us < microseconds; });
    time = static_cast<std::size_t>(found - history.events.begin());
  };
  for (MemoryPhase& phase : history.phases) {
    index(phase.begin);
    index(phase.end);
  }
}

// Adds memory that this case was given but did not allocate, at the start, where no address is valid.
void AddShared(MemoryHistory& history, double bytes) {
  if (bytes <= 0) return;
  constexpr uint64_t kNowhere = 4096;
  const auto size = static_cast<uint64_t>(bytes);
  const std::string site = absl::StrCat(observe::kParametersRange, "/of earlier cases");
  history.events.insert(history.events.begin(), {.address = kNowhere, .bytes = size, .site = site});
  if (history.events.size() > 1) history.events[0].time_us = history.events[1].time_us;
  for (MemoryPhase& phase : history.phases) {
    ++phase.begin;
    ++phase.end;
  }
  history.segments.insert(history.segments.begin(), {.address = kNowhere,
                                                     .bytes = size,
                                                     .blocks = {{.address = kNowhere,
                                                                 .bytes = size,
                                                                 .requested_bytes = size,
                                                                 .allocated = true,
                                                                 .active = true,
                                                                 .site = site}}});
}

}  // namespace

struct MemorySnapshot::Recording final : timing::PhaseMarker {
  explicit Recording(Device& on) : device(on) {
    if (device.gpu() != nullptr) device.gpu()->StartMemoryHistory(&observe::AllocationSites::Now, kMostEvents);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (device.gpu() != nullptr && !is_read) device.gpu()->FinishMemoryHistory();
  }

  // On a GPU, whose events are read at the end, this is a time.
  std::size_t Position() const {
    return device.gpu() == nullptr ? host.size() : static_cast<std::size_t>(observe::MicrosecondsNow());
  }

  void End(int phase) override { EndAs((*names).at(static_cast<std::size_t>(phase))); }
  void EndAs(const std::string& name) {
    const std::size_t now = Position();
    phases.push_back({.name = name, .step = step, .begin = begin, .end = now});
    begin = now;
  }

  MemoryHistory Read() {
    is_read = true;
    MemoryHistory history = device.gpu() == nullptr ? host.Finish() : device.gpu()->FinishMemoryHistory();
    history.phases = std::move(phases);
    if (device.gpu() != nullptr) IndexByTime(history);
    return history;
  }

  Device& device;
  observe::HostHistory host{kMostEvents};
  observe::AllocationSites sites;
  std::vector<MemoryPhase> phases;
  const std::vector<std::string>* names = nullptr;
  std::size_t begin = 0;
  int step = 0;
  bool is_read = false;
};

MemorySnapshot::MemorySnapshot(Device& device, int64_t steps)
    : device_(device), steps_(steps), recording_(std::make_unique<Recording>(device)) {}

MemorySnapshot::~MemorySnapshot() = default;

observe::PeakMemory::Listener MemorySnapshot::Listener() {
  if (device_.gpu() != nullptr) return nullptr;
  return [this](const void* address, int64_t bytes) {
    if (recording_) recording_->host.Report(address, bytes);
  };
}

void MemorySnapshot::Step(const Case& one) {
  Recording& recording = *recording_;
  recording.names = &one.phases;
  recording.begin = recording.Position();
  const std::size_t before = recording.phases.size();
  {
    const observe::Range range(observe::kStepRange);
    one.step(recording);
  }
  // Events after the step's last phase belong to none of its phases, but to "end of step".
  if (recording.phases.size() == before) {
    recording.EndAs("step");
  } else if (recording.Position() > recording.begin) {
    recording.EndAs("end of step");
  }
  ++recording.step;
}

void MemorySnapshot::Finish(const Case& one, double shared_bytes) {
  while (recording_->step < steps_ && recording_->host.size() < kMostEvents) Step(one);
  history_ = recording_->Read();
  recording_.reset();
  observe::ForgetBuildWork(history_);
  AddShared(history_, shared_bytes);
  observe::Categorize(history_);
}

absl::Status MemorySnapshot::Write(const std::string& folder, const Outcome& outcome) const {
  observe::SnapshotFacts facts{.case_name = outcome.name,
                               .device = device_.kind(),
                               .device_index = std::max<int>(0, device_.torch_device().index()),
                               .threads = device_.threads(),
                               .counters = {{"peak_mem", outcome.peak_memory_bytes}}};
  for (const auto& [name, value] : outcome.figures) {
    if (name.ends_with("_mem")) facts.counters.emplace_back(name, value);
  }
  return WriteFile(absl::StrCat(folder, "/", ProfileStem(outcome.name), ".pickle"),
                   observe::SnapshotPickle(facts, history_));
}

}  // namespace roofbench
