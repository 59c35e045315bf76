// SPDX-License-Identifier: Apache-2.0
// Which event happened inside which, on which part of the model, and what of its time was its own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/observe/profile/event.h"

namespace roofbench::observe {

// A part of the model: a range, by its name and those around it. The first is the step. What happens outside of every
// step is part of none.
struct Module {
  std::string name;
  std::size_t parent = 0;  // index; the step's own is 0
  int depth = 0;           // of the step: 0
};

struct TreeEvent {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t event;            // index of the ProfiledEvent
  std::size_t parent = kNone;   // index of the TreeEvent around it
  std::size_t module = kNone;   // the innermost part of the model; kNone: outside of every step
  int depth = 0;                // operators around it, inside the step
  int64_t self_ns = 0;          // of the host: not in events inside it
  int64_t self_device_ns = 0;   // of kernels that it launched itself
  int64_t total_device_ns = 0;  // with those of events inside it
  bool is_kernel = false;       // a range of a kernel of ours
};

// A function of the backward pass belongs to the part of the forward pass whose operator it derives, inside the range
// that it runs in: "backward/block 3/attention". A range inside one of its own name is the same part of the model.
struct EventTree {
  std::vector<Module> modules;
  std::vector<TreeEvent> events;  // of the host, in the order of threads and times; those around come first
  // Which of `events` launched a device kernel: for each ProfiledEvent of that kind, in their order; or kNone.
  std::vector<std::size_t> launchers;
};
EventTree BuildTree(const std::vector<ProfiledEvent>& events);

// "forward/block 3/attention"; "" for the step.
std::string PathOf(const EventTree& tree, std::size_t module);

// The part of the model directly in the step that `module` is in; 0 for the step itself.
std::size_t PhaseOf(const EventTree& tree, std::size_t module);

}  // namespace roofbench::observe
