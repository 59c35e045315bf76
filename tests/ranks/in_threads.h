// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of a test.
#pragma once

#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lib/ranks/board.h"
#include "lib/ranks/group.h"

namespace roofbench::ranks {

inline constexpr std::chrono::milliseconds kPatience(20'000);

// LibTorch's recorder of works is one for the process, and not safe where groups of several threads use it.
inline const int kWithoutRecorder = setenv("TORCH_FR_BUFFER_SIZE", "0", 1);

// Boards of `size` ranks, by rank.
inline std::vector<std::unique_ptr<Board>> OpenBoards(int size) {
  std::vector<std::unique_ptr<Board>> boards;
  Place place{.launcher = Launcher::kOurs, .size = size, .serves = true};
  for (; place.rank < size; ++place.rank, place.serves = false) {
    boards.push_back(Board::Open(place, kPatience).value());
    place.port = boards.front()->port();
  }
  return boards;
}

// Calls `work` for each rank, each in a thread of its own, and waits for all.
inline void InThreads(std::size_t size, const std::function<void(std::size_t rank)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) threads.emplace_back(work, rank);
  for (std::thread& thread : threads) thread.join();
}

// The first two processors of this thread, each alone; fewer if it has not two.
inline std::vector<cpu_set_t> SingleProcessors() {
  cpu_set_t all{};
  std::vector<cpu_set_t> single;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return single;
  for (int processor = 0; processor < CPU_SETSIZE && single.size() < 2; ++processor) {
    if (!CPU_ISSET(processor, &all)) continue;
    CPU_ZERO(&single.emplace_back());
    CPU_SET(processor, &single.back());
  }
  return single;
}

// Threads that wait for each other.
class Meeting {
 public:
  explicit Meeting(int size) : missing_(size) {}
  void Wait() {
    std::unique_lock lock(mutex_);
    if (--missing_ == 0) complete_.notify_all();
    complete_.wait(lock, [this] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  int missing_;
};

// The same with a group over Gloo.
inline void InGroup(int size, const std::function<void(Group&)>& work, std::chrono::milliseconds timeout = kPatience) {
  const std::vector<std::unique_ptr<Board>> boards = OpenBoards(size);
  Meeting met(size);  // one that leaves earlier would break the connections that others make
  InThreads(boards.size(), [&](std::size_t rank) {
    const std::unique_ptr<Group> group = MakeGloo(*boards[rank], "test", timeout, /*local=*/true).value();
    met.Wait();
    work(*group);
  });
}

}  // namespace roofbench::ranks
