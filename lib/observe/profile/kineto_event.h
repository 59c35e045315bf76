// SPDX-License-Identifier: Apache-2.0
// What an event of Kineto, the profiler of LibTorch, says to us.
#pragma once

#include <optional>

#include "lib/observe/profile/event.h"

namespace torch::autograd::profiler {
struct KinetoEvent;
}  // namespace torch::autograd::profiler

namespace roofbench::observe {

// Nothing of one that is no operator, no range of ours, and no kernel, copy or fill of a GPU.
std::optional<ProfiledEvent> ReadKinetoEvent(const torch::autograd::profiler::KinetoEvent& event);

}  // namespace roofbench::observe
