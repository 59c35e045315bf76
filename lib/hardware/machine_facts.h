// SPDX-License-Identifier: Apache-2.0
// The settings of a machine that disturb measurements, and how to fix them. Read from the system; a fact that it does
// not report is "unknown" and not counted as a fault.
#pragma once

#include <string>
#include <utility>
#include <vector>

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

}  // namespace roofbench::hardware
