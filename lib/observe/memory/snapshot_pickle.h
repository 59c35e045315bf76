// SPDX-License-Identifier: Apache-2.0
// An allocator's history as a pickle for torch.cuda._memory_viz and pytorch.org/memory_viz.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/observe/memory/memory_history.h"

namespace roofbench::observe {

struct SnapshotFacts {
  std::string case_name = {};
  std::string device = {};  // "cpu" or "cuda"
  int device_index = 0;
  int threads = 0;
  std::vector<std::pair<std::string, double>> counters = {};  // peak_mem and the case's other memory counters, in bytes
};

// A dict with `segments`, `device_traces` and `external_annotations` (the phases), in the format of
// torch.cuda.memory._snapshot(): sites are stacks, innermost name first, and each allocation has a `category`.
// `roofbench` holds the facts and the phases with their steps and event indexes.
std::string SnapshotPickle(const SnapshotFacts& facts, const MemoryHistory& history);

}  // namespace roofbench::observe
