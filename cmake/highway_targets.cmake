# SPDX-License-Identifier: Apache-2.0
# ROOFBENCH_HIGHWAY_DEFINITIONS: targets that Highway must not compile kernels for. The kernels store vectors in arrays,
# which is impossible for vectors of unknown length, so arm64 uses NEON.
set(ROOFBENCH_HIGHWAY_DEFINITIONS "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)")
  set(ROOFBENCH_HIGHWAY_DEFINITIONS "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
endif()
