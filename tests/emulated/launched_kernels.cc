// SPDX-License-Identifier: Apache-2.0
// Where the environment variable EMULATED_LAUNCHES names a file: writes the kernels that the tests launched, one per
// line, as the library of their code and their address in it. tests/kernel_code reads their names from its symbols.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "tests/emulated/cuda/cuda_runtime_api.h"

namespace roofbench::emulated {
namespace {

class LaunchedKernels : public testing::Environment {
 public:
  void TearDown() override {
    const char* const path = std::getenv("EMULATED_LAUNCHES");
    if (path == nullptr) return;
    std::ofstream file(path);
    for (const void* const kernel : Launched()) {
      Dl_info module = {};
      ASSERT_NE(dladdr(kernel, &module), 0);
      file << module.dli_fname << ' ' << std::hex
           << reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(module.dli_fbase) << '\n';
    }
    ASSERT_TRUE(file.flush().good()) << path;
  }
};

[[maybe_unused]] testing::Environment* const kEnvironment = testing::AddGlobalTestEnvironment(new LaunchedKernels);

}  // namespace
}  // namespace roofbench::emulated
