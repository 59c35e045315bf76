// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/snapshot_pickle.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_split.h"

namespace roofbench::observe {
namespace {

using Dict = c10::Dict<c10::IValue, c10::IValue>;
using List = c10::List<c10::IValue>;

Dict NewDict() { return Dict(c10::StringType::get(), c10::AnyType::get()); }
List NewList() { return List(c10::AnyType::get()); }

int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

Dict DictOf(const std::vector<std::pair<const char*, c10::IValue>>& members) {
  Dict dict = NewDict();
  for (const auto& [key, value] : members) dict.insert(key, value);
  return dict;
}

// One stack for each site, shared by its allocations.
class Stacks {
 public:
  List Of(const std::string& site) {
    const auto found = stacks_.find(site);
    if (found != stacks_.end()) return found->second;
    List stack = NewList();
    std::vector<std::string> names;
    if (!site.empty()) names = absl::StrSplit(site, '/');
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      stack.push_back(DictOf({{"name", *name}, {"filename", "roofbench"}, {"line", int64_t{0}}}));
    }
    return stacks_.emplace(site, stack).first->second;
  }

 private:
  std::unordered_map<std::string, List> stacks_;
};

Dict Event(const MemoryEvent& event, Stacks& stacks) {
  Dict entry = DictOf({{"action", std::string(Name(event.action))},
                       {event.action == MemoryAction::kOutOfMemory ? "device_free" : "addr", Signed(event.address)},
                       {"size", Signed(event.bytes)},
                       {"stream", Signed(event.stream)},
                       {"time_us", event.time_us},
                       {"frames", stacks.Of(event.site)}});
  if (!event.category.empty()) entry.insert("category", event.category);
  return entry;
}

Dict Block(const MemoryBlock& block, Stacks& stacks) {
  const char* const state = block.allocated ? "active_allocated" : block.active ? "active_pending_free" : "inactive";
  return DictOf({{"address", Signed(block.address)},
                 {"size", Signed(block.bytes)},
                 {"requested_size", Signed(block.requested_bytes)},
                 {"state", state},
                 {"frames", stacks.Of(block.site)}});
}

Dict Segment(const MemorySegment& segment, int device, Stacks& stacks) {
  List blocks = NewList();
  uint64_t allocated = 0;
  uint64_t active = 0;
  uint64_t requested = 0;
  for (const MemoryBlock& block : segment.blocks) {
    blocks.push_back(Block(block, stacks));
    allocated += block.allocated ? block.bytes : 0;
    active += block.allocated || block.active ? block.bytes : 0;
    requested += block.allocated ? block.requested_bytes : 0;
  }
  return DictOf({{"device", int64_t{device}},
                 {"address", Signed(segment.address)},
                 {"total_size", Signed(segment.bytes)},
                 {"allocated_size", Signed(allocated)},
                 {"active_size", Signed(active)},
                 {"requested_size", Signed(requested)},
                 {"stream", Signed(segment.stream)},
                 {"segment_type", segment.is_large ? "large" : "small"},
                 {"is_expandable", false},
                 {"frames", stacks.Of("")},
                 {"blocks", blocks}});
}

// The time of the event at `index`, or of the last one.
int64_t TimeAt(const MemoryHistory& history, std::size_t index) {
  return history.events.empty() ? 0 : history.events[std::min(index, history.events.size() - 1)].time_us;
}

List Annotations(const MemoryHistory& history, int device) {
  List annotations = NewList();
  for (const MemoryPhase& phase : history.phases) {
    for (const auto& [stage, index] : {std::pair("START", phase.begin), std::pair("END", phase.end)}) {
      annotations.push_back(DictOf(
          {{"name", phase.name}, {"stage", stage}, {"device", int64_t{device}}, {"time_us", TimeAt(history, index)}}));
    }
  }
  return annotations;
}

List Phases(const MemoryHistory& history) {
  List phases = NewList();
  for (const MemoryPhase& phase : history.phases) {
    phases.push_back(DictOf({{"name", phase.name},
                             {"step", int64_t{phase.step}},
                             {"begin", static_cast<int64_t>(phase.begin)},
                             {"end", static_cast<int64_t>(phase.end)}}));
  }
  return phases;
}

Dict Facts(const SnapshotFacts& facts, const MemoryHistory& history) {
  Dict counters = NewDict();
  for (const auto& [name, value] : facts.counters) counters.insert(name, value);
  return DictOf({{"version", int64_t{1}},
                 {"case", facts.case_name},
                 {"device", facts.device},
                 {"threads", int64_t{facts.threads}},
                 {"dropped", Signed(history.dropped)},
                 {"counters", counters},
                 {"phases", Phases(history)}});
}

}  // namespace

std::string SnapshotPickle(const SnapshotFacts& facts, const MemoryHistory& history) {
  Stacks stacks;
  List events = NewList();
  for (const MemoryEvent& event : history.events) events.push_back(Event(event, stacks));
  List segments = NewList();
  for (const MemorySegment& segment : history.segments)
    segments.push_back(Segment(segment, facts.device_index, stacks));
  // One trace for each device; those of lower indexes are empty.
  List traces = NewList();
  for (int device = 0; device < facts.device_index; ++device) traces.push_back(NewList());
  traces.push_back(events);
  const Dict snapshot = DictOf({{"segments", segments},
                                {"device_traces", traces},
                                {"external_annotations", Annotations(history, facts.device_index)},
                                {"allocator_settings", NewDict()},
                                {"roofbench", Facts(facts, history)}});
  std::string pickle;
  torch::jit::Pickler pickler([&pickle](const char* data, std::size_t bytes) { pickle.append(data, bytes); }, nullptr,
                              nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(snapshot);
  pickler.stop();
  return pickle;
}

}  // namespace roofbench::observe
