# SPDX-License-Identifier: Apache-2.0
# ROOFBENCH_HIGHWAY_DEFINITIONS: what Highway shall not compile kernels for. They keep blocks of vectors in arrays, which
# vectors of unknown length cannot be in: arm64 gets NEON.
set(ROOFBENCH_HIGHWAY_DEFINITIONS "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)")
  set(ROOFBENCH_HIGHWAY_DEFINITIONS "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
endif()
