// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/memory_history.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <unordered_map>

#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

constexpr std::array<std::string_view, 9> kActions = {"alloc",         "free_requested", "free_completed",
                                                      "segment_alloc", "segment_free",   "segment_map",
                                                      "segment_unmap", "snapshot",       "oom"};

constexpr std::size_t kNever = static_cast<std::size_t>(-1);

// A range of a site, and what is made in it: before the first step, and in a phase for longer than the phase.
struct Row {
  std::string_view range;
  std::string_view category;
};
constexpr Row kBuilt[] = {
    {kParametersRange, "parameters"}, {kOptimizerRange, "optimizer state"}, {kKvCacheRange, "kv cache"}};
constexpr Row kLasting[] = {{"backward", "gradients"}, {kOptimizerRange, "optimizer state"}};

bool IsIn(std::string_view site, std::string_view range) {
  for (std::size_t at = site.find(range); at != std::string_view::npos; at = site.find(range, at + 1)) {
    const std::size_t end = at + range.size();
    if ((at == 0 || site[at - 1] == '/') && (end == site.size() || site[end] == '/')) return true;
  }
  return false;
}

std::string_view BuiltIn(std::string_view site) {
  for (const Row& row : kBuilt) {
    if (IsIn(site, row.range)) return row.category;
  }
  return "operands";
}

std::string_view LastingFrom(std::string_view phase) {
  for (const Row& row : kLasting) {
    if (phase == row.range) return row.category;
  }
  return "activations";
}

bool IsFree(const MemoryEvent& event) { return event.action == MemoryAction::kFreeRequested; }

// For each allocation the index of the event that ends it, or kNever.
std::vector<std::size_t> Ends(const std::vector<MemoryEvent>& events) {
  std::vector<std::size_t> ends(events.size(), kNever);
  std::unordered_map<uint64_t, std::size_t> open;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].action == MemoryAction::kAlloc) open[events[i].address] = i;
    if (!IsFree(events[i])) continue;
    const auto found = open.find(events[i].address);
    if (found == open.end()) continue;
    ends[found->second] = i;
    open.erase(found);
  }
  return ends;
}

}  // namespace

int64_t MicrosecondsNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::string_view Name(MemoryAction action) { return kActions.at(static_cast<std::size_t>(action)); }

void ForgetBuildWork(MemoryHistory& history) {
  if (history.phases.empty()) return;
  const std::size_t first = history.phases.front().begin;
  const std::vector<std::size_t> ends = Ends(history.events);
  std::vector<bool> is_kept(history.events.size(), true);
  std::unordered_map<uint64_t, bool> is_begun;  // by the address of what was freed: its allocation is in the history
  for (std::size_t i = 0; i < first; ++i) {
    const MemoryEvent& event = history.events[i];
    if (event.action == MemoryAction::kAlloc && ends[i] < first) is_kept[i] = is_kept[ends[i]] = false;
    if (IsFree(event)) is_begun[event.address] = !is_kept[i];
    if (event.action == MemoryAction::kFreeCompleted) {
      const auto freed = is_begun.find(event.address);
      if (freed != is_begun.end() && freed->second) is_kept[i] = false;
    }
  }
  std::vector<MemoryEvent> kept;
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    if (is_kept[i]) kept.push_back(std::move(history.events[i]));
    if (!is_kept[i]) ++dropped;
  }
  history.events = std::move(kept);
  for (MemoryPhase& phase : history.phases) {
    phase.begin -= dropped;
    phase.end -= dropped;
  }
}

void Categorise(MemoryHistory& history) {
  const std::vector<std::size_t> ends = Ends(history.events);
  auto phase = history.phases.begin();
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    MemoryEvent& event = history.events[i];
    while (phase != history.phases.end() && phase->end <= i) ++phase;
    if (event.action != MemoryAction::kAlloc) continue;
    const bool in_phase = phase != history.phases.end() && phase->begin <= i;
    if (!in_phase) {
      event.category = BuiltIn(event.site);
      continue;
    }
    const bool ends_inside = ends[i] < phase->end && !IsIn(history.events[ends[i]].site, kZeroGradRange);
    event.category = ends_inside ? "workspace" : LastingFrom(phase->name);
  }
}

uint64_t PeakBytes(const MemoryHistory& history) {
  // Alive before: what ends without having begun, and what is alive at the end without having begun.
  std::unordered_map<uint64_t, uint64_t> open;
  uint64_t before = 0;
  for (const MemoryEvent& event : history.events) {
    if (event.action == MemoryAction::kAlloc) open[event.address] = event.bytes;
    if (IsFree(event) && open.erase(event.address) == 0) before += event.bytes;
  }
  for (const MemorySegment& segment : history.segments) {
    for (const MemoryBlock& block : segment.blocks) {
      if (block.allocated && open.find(block.address) == open.end()) before += block.bytes;
    }
  }
  uint64_t now = before;
  uint64_t peak = before;
  for (const MemoryEvent& event : history.events) {
    if (event.action == MemoryAction::kAlloc) now += event.bytes;
    if (IsFree(event)) now -= std::min(now, event.bytes);
    peak = std::max(peak, now);
  }
  return peak;
}

}  // namespace roofbench::observe
