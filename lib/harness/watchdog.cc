#include "lib/harness/watchdog.h"

#include <utility>

namespace roofbench {

using Clock = std::chrono::steady_clock;

Watchdog::Watchdog(double seconds, std::function<void()> expired) : limit_(seconds), expired_(std::move(expired)) {
  if (seconds > 0) thread_ = std::thread([this] { Watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::Arm() {
  {
    const std::lock_guard lock(mutex_);
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit_);
  }
  changed_.notify_one();
}

void Watchdog::Disarm() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

void Watchdog::Watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (Clock::now() < *deadline_) {
      // A copy: the deadline may be gone while this waits.
      const Clock::time_point until = *deadline_;
      changed_.wait_until(lock, until);
    } else {
      deadline_.reset();
      expired_();
    }
  }
}

}  // namespace roofbench
