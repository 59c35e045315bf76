#include "lib/kernels/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace roofbench::kernels {

void UseHugePages(const void* data, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + kPage - 1) & ~(kPage - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) & ~(kPage - 1);
  if (begin >= end) return;
  void* const pages = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  madvise(pages, end - begin, MADV_HUGEPAGE);
  // Linux 6.1 and newer move what has been touched at once; older ones do it in the background, in time.
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older C libraries do not name
  madvise(pages, end - begin, kCollapse);
#endif
}

}  // namespace roofbench::kernels
