// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/event_tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

constexpr std::size_t kNone = TreeEvent::kNone;

class Builder {
 public:
  explicit Builder(const std::vector<ProfiledEvent>& events) : events_(events) {
    tree_.modules.push_back({.name = kStepRange});
  }

  EventTree Build() {
    for (const std::size_t index : InOrder()) Add(index);
    Launch();
    // Those inside come later.
    for (std::size_t i = tree_.events.size(); i-- > 0;) {
      TreeEvent& one = tree_.events[i];
      one.total_device_ns += one.self_device_ns;
      if (one.parent != kNone) tree_.events[one.parent].total_device_ns += one.total_device_ns;
    }
    return std::move(tree_);
  }

 private:
  std::vector<std::size_t> InOrder() const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].kind != EventKind::kDeviceKernel) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      const ProfiledEvent& one = events_[a];
      const ProfiledEvent& other = events_[b];
      if (one.thread != other.thread) return one.thread < other.thread;
      if (one.start_ns != other.start_ns) return one.start_ns < other.start_ns;
      return one.end_ns > other.end_ns;
    });
    return order;
  }

  const ProfiledEvent& Around() const { return events_[tree_.events[open_.back()].event]; }

  void Add(std::size_t index) {
    const ProfiledEvent& event = events_[index];
    while (!open_.empty() && (Around().thread != event.thread || Around().end_ns <= event.start_ns)) open_.pop_back();
    TreeEvent added{.event = index, .self_ns = event.duration_ns()};
    if (!open_.empty()) {
      added.parent = open_.back();
      TreeEvent& around = tree_.events[added.parent];
      around.self_ns -= event.duration_ns();
      added.module = around.module;
      added.depth = around.depth + (Around().kind == EventKind::kOperator ? 1 : 0);
    }
    added.is_kernel = event.kind == EventKind::kRange && event.name.starts_with(kKernelPrefix);
    if (event.kind == EventKind::kRange && !added.is_kernel) {
      added.module = Enter(added.module, event.name);
    } else if (added.module != kNone) {
      FollowAutograd(event, added);
    }
    open_.push_back(tree_.events.size());
    tree_.events.push_back(added);
  }

  std::size_t Enter(std::size_t module, const std::string& name) {
    if (module == kNone) return name == kStepRange ? 0 : kNone;
    return tree_.modules[module].name == name ? module : Child(module, name);
  }

  std::size_t Child(std::size_t module, const std::string& name) {
    const auto [found, is_new] = children_.try_emplace({module, name}, tree_.modules.size());
    if (is_new) {
      tree_.modules.push_back({.name = name, .parent = module, .depth = tree_.modules[module].depth + 1});
    }
    return found->second;
  }

  void FollowAutograd(const ProfiledEvent& event, TreeEvent& added) {
    if (event.sequence < 0) return;
    if (!event.backward) {
      forward_[event.sequence] = added.module;
      return;
    }
    const auto found = forward_.find(event.sequence);
    // Its function inside is where it is already.
    if (found != forward_.end() && !IsInBackward(added)) added.module = Graft(added.module, found->second);
  }

  bool IsInBackward(const TreeEvent& added) const {
    return added.parent != kNone && events_[tree_.events[added.parent].event].backward;
  }

  // The path of `module` below its phase, inside `into`.
  std::size_t Graft(std::size_t into, std::size_t module) {
    if (tree_.modules[module].depth <= 1) return into;
    return Child(Graft(into, tree_.modules[module].parent), tree_.modules[module].name);
  }

  void Launch() {
    std::unordered_map<uint64_t, std::size_t> by_correlation;
    for (std::size_t i = 0; i < tree_.events.size(); ++i) {
      const uint64_t correlation = events_[tree_.events[i].event].correlation;
      if (correlation != 0) by_correlation.emplace(correlation, i);
    }
    for (const ProfiledEvent& event : events_) {
      if (event.kind != EventKind::kDeviceKernel) continue;
      const auto found = by_correlation.find(event.correlation);
      tree_.launchers.push_back(found == by_correlation.end() ? kNone : found->second);
      if (found != by_correlation.end()) tree_.events[found->second].self_device_ns += event.duration_ns();
    }
  }

  const std::vector<ProfiledEvent>& events_;
  EventTree tree_;
  std::vector<std::size_t> open_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> children_;
  std::unordered_map<int64_t, std::size_t> forward_;  // by sequence number: where the operator was
};

}  // namespace

EventTree BuildTree(const std::vector<ProfiledEvent>& events) { return Builder(events).Build(); }

std::string PathOf(const EventTree& tree, std::size_t module) {
  if (tree.modules[module].depth == 0) return "";
  const std::string around = PathOf(tree, tree.modules[module].parent);
  return around.empty() ? tree.modules[module].name : around + "/" + tree.modules[module].name;
}

std::size_t PhaseOf(const EventTree& tree, std::size_t module) {
  while (tree.modules[module].depth > 1) module = tree.modules[module].parent;
  return module;
}

}  // namespace roofbench::observe
