// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/peak_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace roofbench::observe {
namespace {

class Reporter : public c10::MemoryReportingInfoBase {
 public:
  explicit Reporter(PeakMemory::Listener listener) : listener_(std::move(listener)) {}

  void reportMemoryUsage(void* ptr, int64_t alloc_size, size_t /*total_allocated*/, size_t /*total_reserved*/,
                         c10::Device device) override {
    if (listener_ && device.is_cpu()) {
      const std::scoped_lock lock(mutex_);
      listener_(ptr, alloc_size);
    }
    const int64_t now = current_.fetch_add(alloc_size) + alloc_size;
    int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  void ResetPeak() { peak_ = current_.load(); }
  int64_t peak() const { return peak_; }
  int64_t current() const { return current_; }

 private:
  const PeakMemory::Listener listener_;
  std::mutex mutex_;  // serializes the listener
  std::atomic<int64_t> current_{0};
  std::atomic<int64_t> peak_{0};
};

}  // namespace

struct PeakMemory::Scope {
  explicit Scope(PeakMemory::Listener listener) : reporter(std::make_shared<Reporter>(std::move(listener))) {}

  std::shared_ptr<Reporter> reporter;
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, reporter};
};

PeakMemory::PeakMemory(Listener listener) : scope_(std::make_unique<Scope>(std::move(listener))) {}
PeakMemory::~PeakMemory() = default;
void PeakMemory::ResetPeak() { scope_->reporter->ResetPeak(); }
std::optional<double> PeakMemory::BytesNow() {
  const auto* reporter = dynamic_cast<Reporter*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
  if (reporter == nullptr) return std::nullopt;
  return static_cast<double>(reporter->current());
}
double PeakMemory::PeakBytes() const { return static_cast<double>(scope_->reporter->peak()); }

}  // namespace roofbench::observe
