// SPDX-License-Identifier: Apache-2.0
// The machine under test: facts of the processor and the system, read from the system and never guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/workload/dtype.h"

namespace roofbench::hardware {

// Where instances of a level differ (performance and efficiency cores), the smallest: a working set that fits it fits
// all.
struct CacheLevel {
  int level = 0;
  double bytes = 0;   // of one instance
  int shared_by = 1;  // logical processors that share an instance
  int instances = 1;  // that serve the processors this process may run on
};

struct CpuFacts {
  std::string model;               // /proc/cpuinfo "model name"; "unknown" if absent
  std::string arch;                // uname machine
  int logical_cpus = 0;            // online
  std::vector<int> affinity;       // processors this process may run on
  std::vector<CacheLevel> caches;  // data and unified levels, ascending
  std::string isa;                 // widest vector extension the probes use: "avx512", "avx2", "baseline"
  bool bf16_dot = false;           // a bf16 dot-product (or matrix) instruction
  bool int8_dot = false;           // an int8 dot-product (or matrix) instruction
  bool fp16_arithmetic = false;    // fp16 multiply-add
  std::string governor;            // cpufreq governor of processor 0, or "unknown"
  std::string huge_pages;          // transparent huge pages: "always", "madvise", "never" or "unknown"
  double total_memory_bytes = 0;

  double LastLevelCacheBytes() const;          // all instances together; 0 if unknown
  bool Supports(workload::Dtype dtype) const;  // arithmetic in hardware; tf32 and fp8 never on a CPU
  // For the context of results: key, value.
  std::vector<std::pair<std::string, std::string>> Context() const;
};

// `root` replaces "/" for tests. `processors`: on which its threads may run; empty: those of its first thread.
CpuFacts ReadCpuFacts(const std::string& root = "/", std::vector<int> processors = {});

// Bytes that this process can still allocate: the least of MemAvailable and the remainder of its cgroup (v2 or v1). 0
// if neither can be read.
double AvailableMemoryBytes(const std::string& root = "/");

// Seconds since boot, summed over all processors.
struct ProcessorTime {
  double busy = 0;    // spent by all programs and the kernel
  double stolen = 0;  // taken by the hypervisor for others
};

// nullopt where the system does not report them. Resolution: a tick, 10 ms.
std::optional<ProcessorTime> ReadProcessorTime(const std::string& root = "/");

}  // namespace roofbench::hardware
