// SPDX-License-Identifier: Apache-2.0
// Where the golden files are.
#pragma once

#include <cstdlib>
#include <string>

#include "test_paths.h"

namespace roofbench {

// The source folder: ROOFBENCH_SOURCE_DIR of the environment, where the test was carried to another machine; else that
// of the build.
inline std::string SourceDir() {
  const char* given = std::getenv("ROOFBENCH_SOURCE_DIR");
  return given != nullptr ? given : ROOFBENCH_SOURCE_DIR;
}

}  // namespace roofbench
