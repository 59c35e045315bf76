// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/threading/huge_pages.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <string>

namespace roofbench::kernels {
namespace {

std::atomic<bool> g_allowed{true};

// madvise over the whole huge pages in the memory.
void Advise(const void* data, std::size_t bytes, int advice) {
  constexpr std::uintptr_t kPage = kHugePageBytes;
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + kPage - 1) & ~(kPage - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) & ~(kPage - 1);
  if (begin >= end || !g_allowed) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, advice);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

void AllowHugePages(bool allowed) { g_allowed = allowed; }

bool GrantsHugePages() {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  return g_allowed && !setting.empty() && setting.find("[never]") == std::string::npos;
}

void PreferHugePages(const void* data, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  Advise(data, bytes, MADV_HUGEPAGE);
#endif
}

void UseHugePages(const void* data, std::size_t bytes) {
  PreferHugePages(data, bytes);
  // Linux 6.1 and newer move touched memory at once; older ones do it later in the background.
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older C libraries do not define
  Advise(data, bytes, kCollapse);
}

}  // namespace roofbench::kernels
