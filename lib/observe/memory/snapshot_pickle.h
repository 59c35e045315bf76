// SPDX-License-Identifier: Apache-2.0
// A history of an allocator as the pickle that torch.cuda._memory_viz and pytorch.org/memory_viz open.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/observe/memory/memory_history.h"

namespace roofbench::observe {

// What a snapshot is of. Bytes.
struct SnapshotFacts {
  std::string case_name = {};
  std::string device = {};  // "cpu" or "cuda"
  int device_index = 0;
  int threads = 0;
  std::vector<std::pair<std::string, double>> counters = {};  // peak_mem and what else the case says of its memory
};

// A dict with `segments`, `device_traces` and `external_annotations` (the phases), in the format of
// torch.cuda.memory._snapshot(): sites are stacks, the innermost name first, and each allocation has its `category`.
// `roofbench` holds the facts and the phases once more, with the steps and events that they are of.
std::string SnapshotPickle(const SnapshotFacts& facts, const MemoryHistory& history);

}  // namespace roofbench::observe
