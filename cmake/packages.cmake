# SPDX-License-Identifier: Apache-2.0
# The packages of the layers without LibTorch, for the program and for the Python package (python/CMakeLists.txt).

# Release 20250814.1 (Debian 12 has 20220623.1, whose string_view is its own type).
roofbench_dependency(
  absl
  PACKAGE absl
  TARGET absl::statusor
  REPOSITORY https://github.com/abseil/abseil-cpp.git
  TAG d38452e1ee03523a208362186fd42248ff2609f6
  DEBIAN libabsl-dev
  ON ABSL_PROPAGATE_CXX_STD ABSL_USE_SYSTEM_INCLUDES)

# Release 3.11.3 (Debian 12 has 3.11.2).
roofbench_dependency(
  nlohmann_json
  PACKAGE nlohmann_json
  TARGET nlohmann_json::nlohmann_json
  REPOSITORY https://github.com/nlohmann/json.git
  TAG 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03
  DEBIAN nlohmann-json3-dev
  OFF JSON_BuildTests)

# Release 1.3.0 (Debian 12 has 1.0.3, which the kernels are written for).
roofbench_dependency(
  highway
  PACKAGE hwy
  TARGET hwy::hwy
  REPOSITORY https://github.com/google/highway.git
  TAG ac0d5d297b13ab1b89f48484fc7911082d76a93f
  DEBIAN libhwy-dev
  OFF HWY_ENABLE_TESTS HWY_ENABLE_EXAMPLES HWY_ENABLE_INSTALL)
