// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/thread_places.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <sstream>

#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::hardware {

std::vector<int> ThreadPlaces::Processors() const {
  std::set<int> all;
  for (const std::vector<int>& place : of_threads) all.insert(place.begin(), place.end());
  return {all.begin(), all.end()};
}

std::string ThreadPlaces::CrowdText() const {
  for (const std::vector<int>& place : of_threads) {
    const auto within = std::count_if(of_threads.begin(), of_threads.end(), [&](const std::vector<int>& other) {
      return std::includes(place.begin(), place.end(), other.begin(), other.end());
    });
    if (place.empty() || within <= std::ssize(place)) continue;
    std::ostringstream text;
    text << within << " threads share processor" << (place.size() > 1 ? "s" : "");
    for (std::size_t i = 0; i < place.size(); ++i) text << (i > 0 ? "," : " ") << place[i];
    text << ": they never all run at the same time. Use as many threads as processors (OMP_NUM_THREADS), or let them "
            "run on more (taskset, OMP_PROC_BIND, OMP_PLACES)";
    return text.str();
  }
  return "";
}

ThreadPlaces FindThreadPlaces(int threads) {
  ThreadPlaces places{std::vector<std::vector<int>>(static_cast<std::size_t>(threads))};
  const auto note = [&](int index) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    std::vector<int>& place = places.of_threads[static_cast<std::size_t>(index)];
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &allowed)) place.push_back(processor);
    }
  };
  kernels::ThreadPool(threads).OnEach(note);
  return places;
}

}  // namespace roofbench::hardware
