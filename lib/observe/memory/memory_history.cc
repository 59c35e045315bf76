// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/memory_history.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

constexpr std::array<std::string_view, 9> kActions = {"alloc",         "free_requested", "free_completed",
                                                      "segment_alloc", "segment_free",   "segment_map",
                                                      "segment_unmap", "snapshot",       "oom"};

constexpr std::size_t kNever = static_cast<std::size_t>(-1);

// The category of memory by range: allocated before the first step, or outliving the phase that allocated it.
struct RangeCategory {
  std::string_view range;
  std::string_view category;
};
constexpr RangeCategory kBuilt[] = {
    {kParametersRange, "parameters"}, {kOptimizerRange, "optimizer state"}, {kKvCacheRange, "kv cache"}};
constexpr RangeCategory kLasting[] = {{"backward", "gradients"}, {kOptimizerRange, "optimizer state"}};

bool IsIn(std::string_view site, std::string_view range) {
  for (std::size_t at = site.find(range); at != std::string_view::npos; at = site.find(range, at + 1)) {
    const std::size_t end = at + range.size();
    if ((at == 0 || site[at - 1] == '/') && (end == site.size() || site[end] == '/')) return true;
  }
  return false;
}

std::string_view BuiltIn(std::string_view site) {
  for (const RangeCategory& row : kBuilt) {
    if (IsIn(site, row.range)) return row.category;
  }
  return "operands";
}

std::string_view LastingFrom(std::string_view phase) {
  for (const RangeCategory& row : kLasting) {
    if (phase == row.range) return row.category;
  }
  return "activations";
}

bool IsFree(const MemoryEvent& event) { return event.action == MemoryAction::kFreeRequested; }

// For each allocation, the index of the event that ends it, or kNever.
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
  std::unordered_map<uint64_t, bool> is_begun;  // by address: the history has the allocation of the freed block
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

void Categorize(MemoryHistory& history) {
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
  // Older blocks: freed, or alive at the end, without an allocation in the history.
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

namespace {

constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
constexpr std::string_view kBackward = "backward";

// The path of each forward operator by sequence number, for autograd's threads.
std::mutex g_mutex;
std::unordered_map<int64_t, std::string>* g_forward = nullptr;

// The path of the outermost operator or backward function that is open on this thread.
thread_local std::optional<std::string> t_open;

std::string Joined(std::string path, std::string_view name) {
  if (!path.empty()) path += '/';
  return path.append(name);
}

// The path without its phase: "forward/block 3/attention" -> "/block 3/attention".
std::string BelowPhase(const std::string& path) {
  const std::size_t slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(slash);
}

std::string BackwardPath(int64_t sequence) {
  std::string phase = OpenRanges();
  if (phase.empty()) phase = kBackward;  // an autograd thread
  const std::scoped_lock lock(g_mutex);
  if (g_forward == nullptr) return phase;
  const auto found = g_forward->find(sequence);
  return found == g_forward->end() ? phase : phase + BelowPhase(found->second);
}

struct Opened : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  // The engine's frame around a backward function has no sequence number.
  if (name.starts_with(kEngine)) return nullptr;
  const bool is_backward = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  if (!is_backward && function.seqNr() >= 0) {
    const std::scoped_lock lock(g_mutex);
    if (g_forward != nullptr) (*g_forward)[function.seqNr()] = OpenRanges();
  }
  if (t_open) return nullptr;
  t_open = Joined(is_backward ? BackwardPath(function.seqNr()) : OpenRanges(), name);
  return std::make_unique<Opened>();
}

void End(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context != nullptr) t_open.reset();
}

}  // namespace

struct AllocationSites::State {
  FollowedRanges ranges;
  std::unordered_map<int64_t, std::string> forward;
  at::CallbackHandle handle = 0;
};

AllocationSites::AllocationSites() : state_(std::make_unique<State>()) {
  {
    const std::scoped_lock lock(g_mutex);
    g_forward = &state_->forward;
  }
  state_->handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(Begin, End).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

AllocationSites::~AllocationSites() {
  at::removeCallback(state_->handle);
  const std::scoped_lock lock(g_mutex);
  g_forward = nullptr;
}

std::string AllocationSites::Now() {
  if (!t_open) return OpenRanges();
  // A range inside an operator is more specific: our kernels, recomputed attention.
  const std::string ranges = OpenRanges();
  const std::string& open = *t_open;
  return ranges.size() > open.size() && ranges.starts_with(open.substr(0, open.rfind('/'))) ? ranges : open;
}

void HostHistory::Add(MemoryAction action, uint64_t address, uint64_t bytes) {
  history_.events.push_back({.action = action,
                             .address = address,
                             .bytes = bytes,
                             .time_us = MicrosecondsNow(),
                             .site = AllocationSites::Now()});
}

void HostHistory::Report(const void* address, int64_t bytes) {
  if (bytes == 0) return;
  if (history_.events.size() >= most_events_) {
    ++history_.dropped;
    return;
  }
  const auto at = reinterpret_cast<uint64_t>(address);
  if (bytes > 0) return Add(MemoryAction::kAlloc, at, static_cast<uint64_t>(bytes));
  // Without streams, a free completes at once.
  Add(MemoryAction::kFreeRequested, at, static_cast<uint64_t>(-bytes));
  Add(MemoryAction::kFreeCompleted, at, static_cast<uint64_t>(-bytes));
}

MemoryHistory HostHistory::Finish() {
  std::map<uint64_t, const MemoryEvent*> alive;
  for (const MemoryEvent& event : history_.events) {
    if (event.action == MemoryAction::kAlloc) alive[event.address] = &event;
    if (event.action == MemoryAction::kFreeRequested) alive.erase(event.address);
  }
  for (const auto& [address, event] : alive) {
    history_.segments.push_back({.address = address,
                                 .bytes = event->bytes,
                                 .blocks = {{.address = address,
                                             .bytes = event->bytes,
                                             .requested_bytes = event->bytes,
                                             .allocated = true,
                                             .active = true,
                                             .site = event->site}}});
  }
  return std::exchange(history_, {});
}

}  // namespace roofbench::observe
