// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/threads.h"

#include <strings.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace roofbench::hardware {
namespace {

constexpr char kTasks[] = "/proc/self/task";

// Whether the threads of OpenMP are told to spin for longer than by default.
bool PoolsSpin() {
  const char* const policy = std::getenv("OMP_WAIT_POLICY");
  if (policy != nullptr) return strcasecmp(policy, "active") == 0;
  return std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("KMP_BLOCKTIME") != nullptr;
}

}  // namespace

std::set<pid_t> Threads() {
  std::set<pid_t> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator task(kTasks, error), end; !error && task != end; task.increment(error)) {
    threads.insert(std::atoi(task->path().filename().c_str()));
  }
  return threads;
}

bool IsAtWork(pid_t thread) {
  std::ifstream file(std::filesystem::path(kTasks) / std::to_string(thread) / "stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") R") == 0;
}

std::size_t StartedThreads::AtWork() const {
  constexpr int kLooks = 100;
  if (PoolsSpin()) return 0;
  std::set<pid_t> started = Threads();
  std::erase_if(started, [&](pid_t thread) { return before_.contains(thread); });
  for (int look = 0; look < kLooks && !started.empty(); ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::erase_if(started, [](pid_t thread) { return !IsAtWork(thread); });
  }
  return started.size();
}

}  // namespace roofbench::hardware
