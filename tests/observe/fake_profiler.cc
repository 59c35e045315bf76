// SPDX-License-Identifier: Apache-2.0
// Stands in for a profiler injected through NVTX_INJECTION64_PATH: writes each range as a line "+name" or "-" to the
// file $ROOFBENCH_FAKE_PROFILER_OUT.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

std::FILE* g_out = nullptr;

int Push(const char* name) {
  std::fprintf(g_out, "+%s\n", name);
  std::fflush(g_out);
  return 0;
}

int Pop() {
  std::fprintf(g_out, "-\n");
  std::fflush(g_out);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const char* path = std::getenv("ROOFBENCH_FAKE_PROFILER_OUT");
  if (path == nullptr || (g_out = std::fopen(path, "w")) == nullptr) return 0;
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(Push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(Pop);
  return 1;
}
