// Notices a case that does not come to its end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace roofbench {

// A thread that calls `expired` when Disarm does not follow Arm within `seconds` (0: never, and there is no thread).
// While `expired` runs, Disarm waits: a case is finished or expired and never both.
class Watchdog {
 public:
  Watchdog(double seconds, std::function<void()> expired);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  void Arm();
  void Disarm();

 private:
  void Watch();

  const std::chrono::duration<double> limit_;
  const std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace roofbench
