// SPDX-License-Identifier: Apache-2.0
// On which processors the threads of a pool may run. OpenMP may bind each to a place of its own (OMP_PROC_BIND): then
// the mask of the process, which is that of its first thread, is one of them.
#pragma once

#include <string>
#include <vector>

namespace roofbench::hardware {

struct ThreadPlaces {
  std::vector<std::vector<int>> of_threads;  // ascending

  // Of all threads together.
  std::vector<int> Processors() const;
  // "2 threads share processor 0: …" where some can never run at the same time; else empty.
  std::string CrowdText() const;
};

// Runs the threads of kernels::ThreadPool once.
ThreadPlaces FindThreadPlaces(int threads);

}  // namespace roofbench::hardware
