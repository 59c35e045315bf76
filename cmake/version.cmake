# SPDX-License-Identifier: Apache-2.0
# roofbench::version: the header roofbench_version.h with ROOFBENCH_VERSION and ROOFBENCH_GIT_REVISION. Every build
# checks it and rewrites it on a change, so a commit recompiles only the file that includes it.
find_package(Git QUIET)
set(version_dir "${PROJECT_BINARY_DIR}/generated")
add_custom_target(
  roofbench_write_version
  COMMAND "${CMAKE_COMMAND}" -D GIT=${GIT_EXECUTABLE} -D SOURCE_DIR=${CMAKE_CURRENT_LIST_DIR}/..
          -D VERSION=${PROJECT_VERSION} -D OUTPUT=${version_dir}/roofbench_version.h
          -P "${CMAKE_CURRENT_LIST_DIR}/write_version.cmake"
  BYPRODUCTS "${version_dir}/roofbench_version.h"
  COMMENT "Revision")
add_library(roofbench_version INTERFACE)
add_library(roofbench::version ALIAS roofbench_version)
target_include_directories(roofbench_version INTERFACE "${version_dir}")
add_dependencies(roofbench_version roofbench_write_version)
