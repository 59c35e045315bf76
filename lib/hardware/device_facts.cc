// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/device_facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "lib/hardware/cgroups.h"
#include "lib/hardware/system_tree.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::hardware {
namespace {

using workload::Dtype;

// The kernel's lists of processors: "0-3,8,10-11". Empty if malformed.
std::vector<int> ParseCpuList(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    std::istringstream ends(range);
    int first = 0;
    if (!(ends >> first)) return {};
    int last = first;
    if (char dash = 0; ends >> dash && (dash != '-' || !(ends >> last))) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

// "48K", "2048K", "32M", or plain bytes; 0 if malformed.
double ParseCacheSize(const std::string& text) {
  const double number = LeadingNumber(text).value_or(0);
  return text.ends_with('K') ? 1024 * number : text.ends_with('M') ? 1024 * 1024 * number : number;
}

// The data and unified caches that serve `cpus`.
std::vector<CacheLevel> ReadCaches(const SystemTree& tree, const std::vector<int>& cpus) {
  std::map<int, CacheLevel> levels;
  std::map<int, std::set<std::string>> instances;  // by the list of processors that share one
  for (const int cpu : cpus) {
    for (int index = 0;; ++index) {
      const std::string folder =
          "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
      const std::optional<double> level = tree.Number(folder + "/level");
      if (!level) break;
      if (tree.Word(folder + "/type") == "Instruction") continue;
      const double bytes = ParseCacheSize(tree.Word(folder + "/size"));
      if (bytes <= 0) continue;
      const int number = static_cast<int>(*level);
      const std::string sharers = tree.Word(folder + "/shared_cpu_list");
      instances[number].insert(sharers);
      CacheLevel& known = levels[number];
      if (known.bytes > 0 && known.bytes <= bytes) continue;
      known = {.level = number,
               .bytes = bytes,
               .shared_by = std::max(1, static_cast<int>(ParseCpuList(sharers).size())),
               .instances = 1};
    }
  }
  std::vector<CacheLevel> ascending;
  for (auto& [number, level] : levels) {
    level.instances = static_cast<int>(instances[number].size());
    ascending.push_back(level);
  }
  return ascending;
}

// Flags of /proc/cpuinfo ("flags" on x86, "Features" on AArch64) that promise an arithmetic instruction.
constexpr std::string_view kBf16Flags[] = {"avx512_bf16", "amx_bf16", "bf16"};
constexpr std::string_view kInt8Flags[] = {"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"};
constexpr std::string_view kFp16Flags[] = {"avx512_fp16", "amx_fp16", "asimdhp"};

std::set<std::string, std::less<>> ReadFlags(const std::string& cpuinfo) {
  std::istringstream words(ValueOf(cpuinfo, "flags").value_or(ValueOf(cpuinfo, "Features").value_or("")));
  return {std::istream_iterator<std::string>(words), {}};
}

template <typename Flags, typename Names>
bool HasAny(const Flags& flags, const Names& names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return flags.contains(name); });
}

// As WidestVectors, for a processor that cannot be queried.
template <typename Flags>
std::string_view WidestOf(const Flags& flags) {
  if (flags.contains("avx512f")) return "avx512";
  if (flags.contains("avx2") && flags.contains("fma")) return "avx2";
  return "baseline";
}

std::string MachineName() {
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown";
}

// "always [madvise] never": the choice in brackets.
std::string Bracketed(const std::string& text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return text.substr(open + 1, close - open - 1);
}

constexpr double kUnlimitedV1 = 0x1p60;  // version 1 writes 2^63 less a page for "no limit"
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The files of one version of cgroups.
struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat: page cache that counts as used but gives way
};

constexpr CgroupFiles kCgroupV2 = {"memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kCgroupV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

// The bytes that the cgroups of this process still leave.
double LeftInCgroups(const SystemTree& tree) {
  double left = kUnlimited;
  for (const CgroupFolder& folder : CgroupFolders(tree, "memory")) {
    const CgroupFiles& files = folder.is_v2 ? kCgroupV2 : kCgroupV1;
    const std::optional<double> limit = tree.Number(folder.path + files.limit);
    const std::optional<double> usage = tree.Number(folder.path + files.usage);
    if (!limit || *limit >= kUnlimitedV1 || !usage) continue;
    const double reclaimable = NumberOf(tree.Text(folder.path + "memory.stat"), files.reclaimable).value_or(0);
    left = std::min(left, std::max(0.0, *limit - std::max(0.0, *usage - reclaimable)));
  }
  return left;
}

}  // namespace

double CpuFacts::LastLevelCacheBytes() const {
  return caches.empty() ? 0 : caches.back().bytes * caches.back().instances;
}

std::vector<std::pair<std::string, std::string>> CpuFacts::Context() const {
  std::ostringstream processors;
  for (const int cpu : affinity) processors << (processors.tellp() > 0 ? "," : "") << cpu;
  std::ostringstream levels;
  for (const CacheLevel& cache : caches) {
    levels << (levels.tellp() > 0 ? ", L" : "L") << cache.level << ' ' << static_cast<int64_t>(cache.bytes / 1024)
           << " KiB per " << cache.shared_by;
  }
  return {{"device_arch", arch},
          {"cpu_isa", isa},
          {"cpu_count", std::to_string(logical_cpus)},
          {"cpu_affinity", processors.str()},
          {"cpu_caches", levels.str()},
          {"memory_bytes", std::to_string(static_cast<int64_t>(total_memory_bytes))}};
}

bool CpuFacts::Supports(Dtype dtype) const {
  return dtype == Dtype::kFp32 || dtype == Dtype::kFp64 || (dtype == Dtype::kBf16 && bf16_dot) ||
         (dtype == Dtype::kInt8 && int8_dot) || (dtype == Dtype::kFp16 && fp16_arithmetic);
}

CpuFacts ReadCpuFacts(const std::string& root, std::vector<int> processors) {
  const SystemTree tree(root);
  const std::string cpuinfo = tree.Text("/proc/cpuinfo");
  const auto flags = ReadFlags(cpuinfo);
  const std::vector<int> online = ParseCpuList(tree.Word("/sys/devices/system/cpu/online"));
  const std::string governor = tree.Word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");

  CpuFacts facts;
  facts.model = ValueOf(cpuinfo, "model name").value_or("unknown");
  facts.arch = MachineName();
  facts.logical_cpus = static_cast<int>(online.size());
  facts.affinity = std::move(processors);
  if (facts.affinity.empty()) {
    facts.affinity = ParseCpuList(ValueOf(tree.Text("/proc/self/status"), "Cpus_allowed_list").value_or(""));
  }
  if (facts.affinity.empty()) facts.affinity = online;
  facts.caches = ReadCaches(tree, facts.affinity);
  // The probes query the processor itself; only the tree of another machine is taken at its word.
  facts.isa = tree.IsReal() ? kernels::WidestVectors() : WidestOf(flags);
  facts.bf16_dot = HasAny(flags, kBf16Flags);
  facts.int8_dot = HasAny(flags, kInt8Flags);
  facts.fp16_arithmetic = HasAny(flags, kFp16Flags);
  facts.governor = governor.empty() ? "unknown" : governor;
  facts.huge_pages = Bracketed(tree.Text("/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.total_memory_bytes = 1024 * NumberOf(tree.Text("/proc/meminfo"), "MemTotal").value_or(0);
  return facts;
}

double AvailableMemoryBytes(const std::string& root) {
  const SystemTree tree(root);
  const std::optional<double> kibibytes = NumberOf(tree.Text("/proc/meminfo"), "MemAvailable");
  double available = LeftInCgroups(tree);
  if (kibibytes) available = std::min(available, 1024 * *kibibytes);
  return std::isfinite(available) ? available : 0;
}

std::optional<ProcessorTime> ReadProcessorTime(const std::string& root) {
  // "cpu user nice system idle iowait irq softirq steal …" in ticks (proc_stat(5)).
  const SystemTree tree(root);
  std::istringstream stream(ValueOf(tree.Text("/proc/stat"), "cpu").value_or(""));
  const std::vector<double> ticks{std::istream_iterator<double>(stream), {}};
  enum Field { kUser, kNice, kSystem, kIdle, kIowait, kIrq, kSoftirq, kSteal };
  if (ticks.size() <= kSteal) return std::nullopt;
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  return ProcessorTime{
      .busy = (ticks[kUser] + ticks[kNice] + ticks[kSystem] + ticks[kIrq] + ticks[kSoftirq]) / per_second,
      .stolen = ticks[kSteal] / per_second};
}

}  // namespace roofbench::hardware
