// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/allocation_site.h"

#include <ATen/record_function.h>

#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
constexpr std::string_view kBackward = "backward";

// Where each operator of the forward pass was, by its number: autograd's threads look it up.
std::mutex g_mutex;
std::unordered_map<int64_t, std::string>* g_forward = nullptr;

// The path up to the outermost operator, or function of the backward pass, that is open on this thread.
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
  if (phase.empty()) phase = kBackward;  // a thread of autograd's own
  const std::scoped_lock lock(g_mutex);
  if (g_forward == nullptr) return phase;
  const auto found = g_forward->find(sequence);
  return found == g_forward->end() ? phase : phase + BelowPhase(found->second);
}

struct Opened : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  // The engine's own frame around a function of the backward pass has no number.
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
  // A range inside of an operator or function is more to the point: kernels of ours, attention made again.
  const std::string ranges = OpenRanges();
  const std::string& open = *t_open;
  return ranges.size() > open.size() && ranges.starts_with(open.substr(0, open.rfind('/'))) ? ranges : open;
}

}  // namespace roofbench::observe
