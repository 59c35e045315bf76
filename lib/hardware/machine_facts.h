// SPDX-License-Identifier: Apache-2.0
// What of a machine's settings disturbs measurements, and how to mend it. Read from the system; what it does not tell
// is "unknown", and no fault.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace roofbench::hardware {

// A setting or a state of the machine.
struct Disturbance {
  std::string fact;         // "turbo"; a key of the context of results
  std::string value;        // "on"
  std::string remedy = {};  // what to do about it; empty: it disturbs nothing
};

// Governor, turbo, siblings of processors, quota of the cgroup, huge pages, NUMA, clock source. `root` replaces "/" for
// tests.
std::vector<Disturbance> Disturbances(const std::string& root = "/");

// The kernel, the processor's model, and the same facts without advice: for the context of results.
std::vector<std::pair<std::string, std::string>> MachineFacts(const std::string& root = "/");

}  // namespace roofbench::hardware
