// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/tables.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lib/observe/profile/operator_work.h"
#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr double kNanosecond = 1e-9;

// A part of the model: a range, identified by its name and the ranges around it. The first one is the step. Events
// outside every step do not belong to a part.
struct Module {
  std::string name;
  std::size_t parent = 0;  // index; 0 for the step itself
  int depth = 0;           // 0 for the step
};

struct TreeEvent {
  std::size_t event;            // index of the ProfiledEvent
  std::size_t parent = kNone;   // index of the enclosing TreeEvent
  std::size_t module = kNone;   // the innermost part of the model; kNone outside every step
  int depth = 0;                // enclosing operators inside the step
  int64_t self_ns = 0;          // on the host, without nested events
  int64_t self_device_ns = 0;   // of kernels that it launched itself
  int64_t total_device_ns = 0;  // with nested events
  bool is_kernel = false;       // a range of one of our kernels
};

// A backward function belongs to the part of the forward pass that it differentiates, inside the range that it runs in:
// "backward/block 3/attention". A range nested in one of the same name is the same part of the model.
struct EventTree {
  std::vector<Module> modules;
  std::vector<TreeEvent> events;  // of the host, by thread and time, parents first
  // The launching event of each device kernel, in their order; or kNone.
  std::vector<std::size_t> launchers;
};

class Builder {
 public:
  explicit Builder(const std::vector<ProfiledEvent>& events) : events_(events) {
    tree_.modules.push_back({.name = kStepRange});
  }

  EventTree Build() {
    for (const std::size_t index : InOrder()) Add(index);
    Launch();
    // Children follow their parents.
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
    // A nested backward function is already in its place.
    if (found != forward_.end() && !IsInBackward(added)) added.module = Graft(added.module, found->second);
  }

  bool IsInBackward(const TreeEvent& added) const {
    return added.parent != kNone && events_[tree_.events[added.parent].event].backward;
  }

  // Copies the path of `module` below its phase to `into`.
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
  std::unordered_map<int64_t, std::size_t> forward_;  // the operator's module by sequence number
};

// "forward/block 3/attention"; "" for the step.
std::string PathOf(const EventTree& tree, std::size_t module) {
  if (tree.modules[module].depth == 0) return "";
  const std::string around = PathOf(tree, tree.modules[module].parent);
  return around.empty() ? tree.modules[module].name : around + "/" + tree.modules[module].name;
}

// The part directly below the step that `module` is in; 0 for the step itself.
std::size_t PhaseOf(const EventTree& tree, std::size_t module) {
  while (tree.modules[module].depth > 1) module = tree.modules[module].parent;
  return module;
}

struct SortColumn {
  std::string_view name;
  double OperatorRow::*value;
};
constexpr SortColumn kSortColumns[] = {{"self", &OperatorRow::self},
                                       {"total", &OperatorRow::total},
                                       {"self_device", &OperatorRow::self_device},
                                       {"total_device", &OperatorRow::total_device},
                                       {"calls", &OperatorRow::calls},
                                       {"flops", &OperatorRow::flops},
                                       {"bytes", &OperatorRow::input_bytes}};

// Rows in the order in which their keys first occur.
template <typename Key, typename Row>
class Rows {
 public:
  Row& At(const Key& key) {
    const auto [found, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) rows_.emplace_back();
    return rows_[found->second];
  }
  std::vector<Row>& rows() { return rows_; }

 private:
  std::map<Key, std::size_t> places_;
  std::vector<Row> rows_;
};

class Tables {
 public:
  Tables(const std::vector<ProfiledEvent>& events, const ProfileRequest& request)
      : events_(events),
        request_(request),
        tree_(Builder(events).Build()),
        steps_(std::max(1, request.steps)),
        each_(1 / steps_) {}

  ProfileTables Make() {
    FindSteps();
    Operators();
    Kernels();
    Modules();
    return std::move(made_);
  }

 private:
  const ProfiledEvent& EventOf(const TreeEvent& one) const { return events_[one.event]; }
  double OfAStep(int64_t ns) const { return static_cast<double>(ns) * kNanosecond * each_; }
  bool IsOperator(const TreeEvent& one) const { return EventOf(one).kind == EventKind::kOperator; }
  // A step that opens no range is the kernel that the request names.
  bool IsKernel(const TreeEvent& one) const {
    return one.is_kernel || (one.module == 0 && EventOf(one).kind == EventKind::kRange && !request_.kernel.empty() &&
                             tree_.modules.size() == 1);
  }
  std::string KernelName(const TreeEvent& one) const {
    return one.is_kernel || IsOperator(one) ? EventOf(one).name : kKernelPrefix + request_.kernel;
  }

  void FindSteps() {
    int64_t covered = 0;
    int64_t steps = 0;
    uint64_t thread = 0;
    for (const TreeEvent& one : tree_.events) {
      if (EventOf(one).kind == EventKind::kRange && one.parent == kNone && one.module == 0) {
        steps += EventOf(one).duration_ns();
        thread = EventOf(one).thread;
      }
    }
    for (const TreeEvent& one : tree_.events) {
      const bool counts = one.module != kNone && EventOf(one).thread == thread && (IsOperator(one) || IsKernel(one));
      if (counts) covered += one.self_ns;
    }
    made_.step = OfAStep(steps);
    made_.covered = steps > 0 ? static_cast<double>(covered) / static_cast<double>(steps) : 0;
    if (steps > 0) made_.own = std::max(0.0, 1 - made_.covered - request_.between / made_.step);
    for (const ProfiledEvent& event : events_) {
      if (event.kind == EventKind::kDeviceKernel) made_.device += OfAStep(event.duration_ns());
    }
  }

  // The share of the device's time if there is any.
  double ShareOf(double host, double device) const {
    if (made_.device > 0) return device / made_.device;
    return made_.step > 0 ? host / made_.step : 0;
  }

  // Whether an enclosing event belongs to the same row, so that the row's total already includes this one.
  bool IsInItself(const TreeEvent& one) const {
    for (std::size_t around = one.parent; around != kNone; around = tree_.events[around].parent) {
      const ProfiledEvent& event = EventOf(tree_.events[around]);
      if (event.kind == EventKind::kOperator && event.name == EventOf(one).name &&
          event.shapes == EventOf(one).shapes) {
        return true;
      }
    }
    return false;
  }

  void Operators() {
    Rows<std::pair<std::string, std::string>, OperatorRow> rows;
    for (const TreeEvent& one : tree_.events) {
      if (!IsOperator(one) || one.module == kNone) continue;
      if (request_.depth > 0 && one.depth >= request_.depth) continue;
      const ProfiledEvent& event = EventOf(one);
      OperatorRow& row = rows.At({event.name, event.shapes});
      row.name = event.name;
      row.shapes = event.shapes;
      row.calls += 1;
      row.self += OfAStep(one.self_ns);
      row.self_device += OfAStep(one.self_device_ns);
      row.flops += event.flops * each_;
      row.input_bytes += event.input_bytes * each_;
      if (IsInItself(one)) continue;
      row.total += OfAStep(event.duration_ns());
      row.total_device += OfAStep(one.total_device_ns);
    }
    for (OperatorRow& row : rows.rows()) {
      row.calls /= steps_;
      row.share = ShareOf(row.self, row.self_device);
    }
    const std::string_view wanted = !request_.sort.empty() ? std::string_view(request_.sort)
                                    : made_.device > 0     ? "self_device"
                                                           : "self";
    const auto* const column = std::find_if(std::begin(kSortColumns), std::end(kSortColumns),
                                            [&](const SortColumn& each) { return each.name == wanted; });
    std::stable_sort(rows.rows().begin(), rows.rows().end(), [column](const OperatorRow& a, const OperatorRow& b) {
      return a.*(column->value) > b.*(column->value);
    });
    made_.operators = std::move(rows.rows());
  }

  std::string PhaseNameOf(std::size_t module) const {
    const std::size_t phase = module == kNone ? 0 : PhaseOf(tree_, module);
    return phase == 0 ? "" : tree_.modules[phase].name;
  }

  void AddKernel(Rows<std::pair<std::string, std::string>, KernelRow>& rows, const std::string& name,
                 std::size_t module, double seconds, double flops, const std::string& launch) const {
    const std::string phase = PhaseNameOf(module);
    KernelRow& row = rows.At({phase, name});
    if (row.calls == 0) row.launch = launch;
    row.name = name;
    row.phase = phase;
    row.work = Name(KindOfWork(name));
    row.calls += 1;
    row.total += seconds;
    row.flops += flops * each_;
  }

  void Kernels() {
    Rows<std::pair<std::string, std::string>, KernelRow> rows;
    if (made_.device > 0) {
      std::size_t next = 0;
      for (const ProfiledEvent& event : events_) {
        if (event.kind != EventKind::kDeviceKernel) continue;
        const std::size_t launcher = tree_.launchers[next++];
        const std::size_t module = launcher == kNone ? kNone : tree_.events[launcher].module;
        const double flops = launcher == kNone ? 0 : EventOf(tree_.events[launcher]).flops;
        AddKernel(rows, event.name, module, OfAStep(event.duration_ns()), flops, event.launch);
      }
    } else {
      for (const TreeEvent& one : tree_.events) {
        if (one.module == kNone || !(IsOperator(one) || IsKernel(one))) continue;
        AddKernel(rows, KernelName(one), one.module, OfAStep(one.self_ns), EventOf(one).flops, "");
      }
    }
    for (KernelRow& row : rows.rows()) {
      row.calls /= steps_;
      row.share = ShareOf(row.total, row.total);
    }
    const bool by_calls = request_.sort == "calls";
    std::stable_sort(rows.rows().begin(), rows.rows().end(), [by_calls](const KernelRow& a, const KernelRow& b) {
      return by_calls ? a.calls > b.calls : a.total > b.total;
    });
    made_.kernels = std::move(rows.rows());
  }

  void Modules() {
    std::vector<ModuleRow> all(tree_.modules.size());
    std::vector<double> self_device(tree_.modules.size());
    for (const TreeEvent& one : tree_.events) {
      if (one.module == kNone) continue;
      ModuleRow& row = all[one.module];
      const ProfiledEvent& event = EventOf(one);
      const bool enters = event.kind == EventKind::kRange && !one.is_kernel &&
                          (one.parent == kNone || tree_.events[one.parent].module != one.module);
      if (enters) row.calls += 1;
      row.self += OfAStep(one.self_ns);
      row.flops += event.flops * each_;
      self_device[one.module] += OfAStep(one.self_device_ns);
    }
    for (std::size_t i = all.size(); i-- > 0;) {
      all[i].calls /= steps_;
      all[i].total += all[i].self;
      all[i].total_device += self_device[i];
      all[i].path = PathOf(tree_, i);
      all[i].depth = tree_.modules[i].depth;
      if (i == 0) break;
      ModuleRow& around = all[tree_.modules[i].parent];  // has a lower index
      around.total += all[i].total;
      around.total_device += all[i].total_device;
      around.flops += all[i].flops;
    }
    Append(all, 0);
  }

  void Append(const std::vector<ModuleRow>& all, std::size_t module) {
    const ModuleRow& row = all[module];
    if (request_.depth > 0 && row.depth > request_.depth) return;
    made_.modules.push_back(row);
    made_.modules.back().share = ShareOf(row.total, row.total_device);
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (tree_.modules[i].parent == module) Append(all, i);
    }
  }

  const std::vector<ProfiledEvent>& events_;
  const ProfileRequest& request_;
  const EventTree tree_;
  const double steps_;
  const double each_;  // one step's share of the recording
  ProfileTables made_;
};

}  // namespace

std::vector<std::string> SortColumns() {
  std::vector<std::string> names;
  for (const SortColumn& column : kSortColumns) names.emplace_back(column.name);
  return names;
}

ProfileTables MakeTables(const std::vector<ProfiledEvent>& events, const ProfileRequest& request) {
  return Tables(events, request).Make();
}

}  // namespace roofbench::observe
