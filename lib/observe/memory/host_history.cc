// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/host_history.h"

#include <map>
#include <utility>

#include "lib/observe/memory/allocation_site.h"

namespace roofbench::observe {
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
  // A CPU has no streams that could delay it.
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
