// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/process_memory.h"

#include <fstream>
#include <string>

namespace roofbench::hardware {
namespace {

// A size of proc_pid_status(5), in bytes: "VmRSS:     1234 kB".
std::optional<double> StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    double kibibytes = 0;
    if (name == field + ":" && status >> kibibytes) return 1024 * kibibytes;
    std::getline(status, name);
  }
  return std::nullopt;
}

}  // namespace

ProcessMemory::ProcessMemory() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5;  // lowers the high-water mark (proc_pid_clear_refs(5)) and clears nothing else
  file.close();
  lowered_ = file.good();
  before_ = StatusBytes("VmRSS").value_or(0);
}

std::optional<double> ProcessMemory::PeakBytes() const { return lowered_ ? StatusBytes("VmHWM") : std::nullopt; }

}  // namespace roofbench::hardware
