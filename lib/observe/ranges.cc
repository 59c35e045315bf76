// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/ranges.h"

#if ROOFBENCH_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace roofbench::observe {

#if ROOFBENCH_HAS_NVTX
bool EnableRanges() {
  internal::g_ranges_enabled = true;
  return true;
}
void internal::Push(const char* name) { nvtxRangePushA(name); }
void internal::Pop() { nvtxRangePop(); }
#else
bool EnableRanges() { return false; }
void internal::Push(const char* /*name*/) {}
void internal::Pop() {}
#endif

}  // namespace roofbench::observe
