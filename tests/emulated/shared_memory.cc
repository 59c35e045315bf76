// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated/shared_memory.h"

#include <link.h>

#include <cstdint>
#include <cstring>

namespace roofbench::emulated {
namespace {

// Whether the module has this function's code; if so, poisons the calling thread's copy of its variables.
int PoisonIfOwn(dl_phdr_info* module, std::size_t /*size*/, void* /*nothing*/) {
  const auto here = reinterpret_cast<uintptr_t>(&PoisonShared);
  bool own = false;
  std::size_t bytes = 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    const uintptr_t begin = module->dlpi_addr + part.p_vaddr;
    own = own || (part.p_type == PT_LOAD && here >= begin && here < begin + part.p_memsz);
    if (part.p_type == PT_TLS) bytes = part.p_memsz;
  }
  if (own && module->dlpi_tls_data != nullptr) std::memset(module->dlpi_tls_data, 0xff, bytes);
  return own ? 1 : 0;
}

}  // namespace

void PoisonShared() { dl_iterate_phdr(&PoisonIfOwn, nullptr); }

}  // namespace roofbench::emulated
