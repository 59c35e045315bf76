// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

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
  std::ifstream file(root + "/proc/self/statm");
  double pages = 0;
  for (int field = 0; field < 6; ++field) file >> pages;
  return file ? pages * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

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

}  // namespace roofbench::hardware
