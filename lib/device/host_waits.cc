// SPDX-License-Identifier: Apache-2.0
#include "lib/device/host_waits.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "lib/timing/clock.h"

namespace roofbench {
namespace {

// Basic operators that wait for the device; other operators that wait call these.
constexpr std::array<std::string_view, 5> kWaiting = {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal",
                                                      "aten::masked_select", "aten::_unique2"};

struct Observed {
  std::function<double()> host_seconds;
  double waited = 0;
  int depth = 0;  // of nested operators that wait
};
thread_local Observed* g_observed = nullptr;

// From a device to the host, or back from memory that the driver has to stage.
bool IsBetweenDevices(const at::RecordFunction& function) {
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  return inputs.size() > 1 && inputs[0].isTensor() && inputs[1].isTensor() &&
         inputs[0].toTensor().device() != inputs[1].toTensor().device();
}

bool Waits(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  if (name == "aten::copy_") return IsBetweenDevices(function);
  return std::find(kWaiting.begin(), kWaiting.end(), name) != kWaiting.end();
}

struct Start : at::ObserverContext {
  double seconds = 0;
};

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  if (g_observed == nullptr || !Waits(function)) return nullptr;
  auto start = std::make_unique<Start>();
  start->seconds = g_observed->host_seconds();
  ++g_observed->depth;
  return start;
}

void End(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr || g_observed == nullptr) return;
  if (--g_observed->depth > 0) return;
  g_observed->waited += g_observed->host_seconds() - static_cast<Start*>(context)->seconds;
}

// While it lives, it observes this thread's operators.
class Observation {
 public:
  explicit Observation(Observed& observed)
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(Begin, End).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
    g_observed = &observed;
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  ~Observation() {
    g_observed = nullptr;
    at::removeCallback(handle_);
  }

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::function<double(const std::function<void()>& step)> HostWaits(std::function<double()> host_seconds) {
  if (!host_seconds) host_seconds = [] { return timing::CpuClock().HostSeconds(); };
  return [host_seconds = std::move(host_seconds)](const std::function<void()>& step) {
    Observed observed{.host_seconds = host_seconds};
    const Observation observation(observed);
    step();
    return observed.waited;
  };
}

}  // namespace roofbench
