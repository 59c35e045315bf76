// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/process_memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "lib/hardware/system_tree.h"
#include "lib/kernels/threading/huge_pages.h"

namespace roofbench::hardware {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The rest is for page tables, and for memory that other programs take while a case runs.
constexpr double kShareOfFree = 0.95;

// The bytes that RLIMIT_DATA counts (VmData; since Linux 4.7 with private mappings), from /proc/self/statm: "size
// resident shared text lib data dirty" in pages. 0 if it cannot be read.
double DataBytes(const std::string& root) {
  std::istringstream file(SystemTree(root).Text("/proc/self/statm"));
  double pages = 0;
  for (int field = 0; field < 6; ++field) file >> pages;
  return file ? pages * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

// A size of proc_pid_status(5), in bytes: "VmRSS:     1234 kB".
std::optional<double> StatusBytes(const char* field) {
  const std::optional<double> kibibytes = NumberOf(SystemTree("/").Text("/proc/self/status"), field);
  return kibibytes ? std::optional(1024 * *kibibytes) : std::nullopt;
}

}  // namespace

std::optional<std::string> UseAllocator(Allocator allocator) {
  const bool tuned = allocator == Allocator::kTuned;
  constexpr char kVariable[] = "THP_MEM_ALLOC_ENABLE";
  const std::string expected = tuned ? "1" : "0";
  if (const char* const given = std::getenv(kVariable); given != nullptr && given != expected) return expected;
  setenv(kVariable, expected.c_str(), /*overwrite=*/1);
  kernels::AllowHugePages(tuned);
#ifdef __GLIBC__
  // Leave the defaults alone, do not set them: glibc adapts its own to the sizes of freed blocks unless they were set.
  if (tuned) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
  }
#endif
  return std::nullopt;
}

void ReleaseFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

double LimitMemory(double free_bytes, const std::string& root) {
  rlimit limit{};
  const double used = DataBytes(root);
  if (kSanitized || !(free_bytes > 0) || used <= 0 || getrlimit(RLIMIT_DATA, &limit) != 0) return 0;
  const double wanted = used + kShareOfFree * free_bytes;
  if (limit.rlim_max != RLIM_INFINITY && wanted >= static_cast<double>(limit.rlim_max)) return 0;
  limit.rlim_cur = static_cast<rlim_t>(wanted);
  return setrlimit(RLIMIT_DATA, &limit) == 0 ? wanted : 0;
}

void LiftMemoryLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_DATA, &limit);
}

ProcessMemory::ProcessMemory() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5;  // lowers the high-water mark (proc_pid_clear_refs(5)) and clears nothing else
  file.close();
  lowered_ = file.good();
  before_ = StatusBytes("VmRSS").value_or(0);
}

std::optional<double> ProcessMemory::PeakBytes() const { return lowered_ ? StatusBytes("VmHWM") : std::nullopt; }

}  // namespace roofbench::hardware
