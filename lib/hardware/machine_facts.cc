// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/machine_facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include "lib/hardware/cgroups.h"
#include "lib/hardware/device_facts.h"
#include "lib/hardware/roofs/bursts.h"
#include "lib/hardware/system_tree.h"

namespace roofbench::hardware {
namespace {

constexpr char kUnknown[] = "unknown";
constexpr double kQuiet = 0.03;  // below the share at which a case counts as noisy

std::string Trimmed(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

Disturbance Governor(const CpuFacts& facts) {
  const bool mends = facts.governor != "performance" && facts.governor != kUnknown;
  return {"cpu_governor", facts.governor, mends ? "cpupower frequency-set -g performance (root)" : ""};
}

Disturbance Turbo(const SystemTree& tree) {
  const std::string off = tree.Word("/sys/devices/system/cpu/intel_pstate/no_turbo");
  const std::string boost = tree.Word("/sys/devices/system/cpu/cpufreq/boost");
  if (off.empty() && boost.empty()) return {"turbo", kUnknown};
  const bool is_on = off == "0" || boost == "1";
  const std::string remedy = off.empty() ? "echo 0 > /sys/devices/system/cpu/cpufreq/boost (root)"
                                         : "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo (root)";
  return {"turbo", is_on ? "on" : "off", is_on ? "the clock follows heat and neighbors: " + remedy : ""};
}

// Whether two processors of this process are siblings: threads of one core.
Disturbance Siblings(const SystemTree& tree, const CpuFacts& facts) {
  std::vector<std::string> cores;
  for (const int cpu : facts.affinity) {
    cores.push_back(tree.Word("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list"));
  }
  if (cores.empty() || cores.front().empty()) return {"smt_siblings", kUnknown};
  std::sort(cores.begin(), cores.end());
  const bool shared = std::adjacent_find(cores.begin(), cores.end()) != cores.end();
  const auto distinct = static_cast<int>(std::unique(cores.begin(), cores.end()) - cores.begin());
  return {"smt_siblings", shared ? "shared cores" : "none",
          shared ? "threads share cores: taskset to one thread of each core and --threads=" + std::to_string(distinct)
                 : ""};
}

// The smallest quota of the cgroups, in processors: "max 100000" or "150000 100000" in version 2, two files in version
// 1. nullopt: the folder reports none; infinite: it has none.
std::optional<double> QuotaOf(const SystemTree& tree, const CgroupFolder& folder) {
  if (folder.is_v2) {
    std::istringstream text(tree.Text(folder.path + "cpu.max"));
    std::string quota;
    double period = 0;
    if (!(text >> quota >> period) || period <= 0) return std::nullopt;
    return quota == "max" ? std::numeric_limits<double>::infinity() : std::atof(quota.c_str()) / period;
  }
  const std::optional<double> quota = tree.Number(folder.path + "cpu.cfs_quota_us");
  const std::optional<double> period = tree.Number(folder.path + "cpu.cfs_period_us");
  if (!quota || !period || *period <= 0) return std::nullopt;
  return *quota < 0 ? std::numeric_limits<double>::infinity() : *quota / *period;
}

Disturbance Quota(const SystemTree& tree) {
  std::optional<double> least;
  for (const CgroupFolder& folder : CgroupFolders(tree, "cpu")) {
    if (const std::optional<double> one = QuotaOf(tree, folder)) least = std::min(*one, least.value_or(*one));
  }
  if (!least) return {"cpu_quota", kUnknown};
  if (std::isinf(*least)) return {"cpu_quota", "none"};
  return {"cpu_quota", Trimmed(*least) + " processors",
          "a quota stops threads in the middle of a step: run without it (docker run without --cpus)"};
}

Disturbance HugePages(const CpuFacts& facts) {
  const bool mends = facts.huge_pages == "never";
  return {"huge_pages", facts.huge_pages,
          mends ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (root)" : ""};
}

Disturbance Numa(const SystemTree& tree) {
  const std::string nodes = tree.Word("/sys/devices/system/node/online");
  if (nodes.empty()) return {"numa_nodes", kUnknown};
  const bool several = nodes.find_first_of("-,") != std::string::npos;
  return {"numa_nodes", nodes, several ? "memory may be far: numactl --cpunodebind=0 --membind=0" : ""};
}

Disturbance ClockSource(const SystemTree& tree) {
  const std::string source = tree.Word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const bool slow = source == "hpet" || source == "acpi_pm" || source == "jiffies";
  return {
      "clock_source", source.empty() ? kUnknown : source,
      slow ? "a clock read is a call into the kernel: boot with clocksource=tsc where the processor allows it" : ""};
}

// For a machine whose processors are known.
std::vector<Disturbance> DisturbancesOf(const SystemTree& tree, const CpuFacts& facts) {
  return {Governor(facts),  Turbo(tree), Siblings(tree, facts), Quota(tree),
          HugePages(facts), Numa(tree),  ClockSource(tree)};
}

Disturbance Persistence(std::optional<bool> persistent) {
  if (!persistent) return {"gpu_persistence", kUnknown};
  if (*persistent) return {"gpu_persistence", "on"};
  return {"gpu_persistence", "off", "nvidia-smi -pm 1 (root): the first step waits for the driver"};
}

std::string Megahertz(double hertz) { return std::to_string(std::lround(hertz / 1e6)); }

std::string OnOff(std::optional<bool> on) { return !on ? kUnknown : *on ? "on" : "off"; }

std::string OfMost(std::optional<double> now, std::optional<double> most) {
  return now && most ? Megahertz(*now) + " of " + Megahertz(*most) + " MHz" : kUnknown;
}

// Clocks below the default are steady and slow: results compare with one another, but not with a datasheet.
Disturbance ChosenClock(std::optional<double> chosen, std::optional<double> usual) {
  return {"gpu_chosen_clock", chosen && chosen == usual ? "default" : OfMost(chosen, usual)};
}

Disturbance Partitions(std::optional<bool> partitioned) {
  return {
      "gpu_mig", OnOff(partitioned),
      partitioned.value_or(false) ? "a part of the GPU is measured, against the whole: nvidia-smi -mig 0 (root)" : ""};
}

// This process is one of them; its number may be that of another namespace.
Disturbance OtherProcesses(std::optional<int> processes) {
  if (!processes) return {"gpu_other_processes", kUnknown};
  const int others = std::max(0, *processes - 1);
  return {"gpu_other_processes", std::to_string(others), others > 0 ? "end them (nvidia-smi shows them)" : ""};
}

Disturbance ClockReasons(const NvmlReading& reading) {
  const std::string remedy = IsThermal(reading) ? "it is too hot: wait, or cool it"
                             : IsPowerCapped(reading)
                                 ? "it is at its power limit: lock a clock below it, nvidia-smi -lgc (root)"
                                 : "";
  return {"gpu_clock_reasons", reading.reasons ? DescribeReasons(*reading.reasons) : kUnknown, remedy};
}

}  // namespace

std::vector<Disturbance> Disturbances(const std::string& root) {
  return DisturbancesOf(SystemTree(root), ReadCpuFacts(root));
}

std::vector<std::pair<std::string, std::string>> MachineFacts(const std::string& root) {
  const CpuFacts cpu = ReadCpuFacts(root);
  utsname name{};
  std::vector<std::pair<std::string, std::string>> facts = {
      {"kernel", uname(&name) == 0 ? std::string(name.sysname) + " " + name.release : kUnknown},
      {"processor", cpu.model}};
  for (const Disturbance& one : DisturbancesOf(SystemTree(root), cpu)) facts.emplace_back(one.fact, one.value);
  return facts;
}

std::vector<Disturbance> GpuDisturbances(const NvmlFacts& facts, const NvmlReading& reading) {
  return {Persistence(facts.is_persistent),
          {"gpu_clock", OfMost(reading.sm_hertz, facts.max_sm_hertz)},
          {"gpu_memory_clock", OfMost(reading.memory_hertz, facts.max_memory_hertz)},
          ChosenClock(facts.chosen_sm_hertz, facts.default_sm_hertz),
          {"gpu_ecc", OnOff(facts.corrects_errors)},
          Partitions(facts.is_partitioned),
          OtherProcesses(facts.processes),
          ClockReasons(reading)};
}

double OthersShare(double seconds) {
  const double begin = WallSeconds();
  const std::optional<ProcessorTime> before = ReadProcessorTime();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));  // this process is idle meanwhile
  const std::optional<ProcessorTime> after = ReadProcessorTime();
  // On a busy machine the sleep takes longer than requested.
  const double slept = WallSeconds() - begin;
  const auto processors = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  if (!before || !after || slept <= 0 || processors <= 0) return 0;
  const double taken = after->busy + after->stolen - before->busy - before->stolen;
  return std::clamp(taken / (processors * slept), 0.0, 1.0);
}

bool WaitUntilQuiet(double seconds, const std::function<double(double seconds)>& share) {
  for (int waited = 0; waited < seconds; ++waited) {
    if (share(1) < kQuiet) return true;
  }
  return false;
}

}  // namespace roofbench::hardware
