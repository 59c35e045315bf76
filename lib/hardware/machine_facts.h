// SPDX-License-Identifier: Apache-2.0
// Settings of a machine and other programs that disturb measurements, and how to fix them. Read from the system; a fact
// that it does not report is "unknown" and not counted as a fault.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/hardware/nvml.h"

namespace roofbench::hardware {

// A setting or a state of the machine.
struct Disturbance {
  std::string fact;         // "turbo"; a key of the context of results
  std::string value;        // "on"
  std::string remedy = {};  // how to fix it; empty: it does not disturb measurements
};

// Governor, turbo, siblings of processors, quota of the cgroup, huge pages, NUMA, clock source. `root` replaces "/" for
// tests.
std::vector<Disturbance> Disturbances(const std::string& root = "/");

// The kernel, the processor's model, and the same facts without advice: for the context of results.
std::vector<std::pair<std::string, std::string>> MachineFacts(const std::string& root = "/");

// Persistence, clocks and the reasons that they are not higher, ECC, MIG, and other processes, as far as the GPU's
// driver reports them. This process must have a context on the GPU.
std::vector<Disturbance> GpuDisturbances(const NvmlFacts& facts, const NvmlReading& reading);

// Share of the processors' time that other programs and the hypervisor took over the next `seconds`; 0 where the system
// does not report it.
double OthersShare(double seconds);

// Calls `share`, each time over one second, until it is small or `seconds` have passed. Returns whether the machine
// became quiet.
bool WaitUntilQuiet(double seconds, const std::function<double(double seconds)>& share = OthersShare);

}  // namespace roofbench::hardware
