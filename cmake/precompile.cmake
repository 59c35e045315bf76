# SPDX-License-Identifier: Apache-2.0
# Precompiled headers of the large packages: LibTorch's headers take three seconds per file, those of JSON two. They
# contain only external headers, so our changes do not rebuild them; header_check compiles our headers without them.

# roofbench_precompiled(<name> LINKS <target>… HEADERS <header>…): a shared precompiled header.
function(roofbench_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS;HEADERS")
  if(NOT ROOFBENCH_PRECOMPILE)
    return()
  endif()
  set(source "${PROJECT_BINARY_DIR}/generated/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Nothing but what is precompiled.\n")
  add_library(${name} OBJECT "${source}")
  target_link_libraries(${name} PRIVATE roofbench::compiler ${arg_LINKS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# roofbench_use_precompiled(<target> <name>)
function(roofbench_use_precompiled target name)
  if(ROOFBENCH_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

set(_torch_headers
    <ATen/Parallel.h>
    <ATen/TensorOperators.h>
    <ATen/core/Tensor.h>
    <ATen/core/grad_mode.h>
    <ATen/ops/empty.h>
    <ATen/ops/mm.h>
    <ATen/ops/randn.h>
    <absl/status/status.h>
    <absl/status/statusor.h>
    <absl/strings/str_cat.h>
    <absl/strings/str_format.h>
    <absl/strings/str_join.h>
    <absl/strings/str_split.h>
    <algorithm>
    <array>
    <chrono>
    <cmath>
    <functional>
    <map>
    <memory>
    <nlohmann/json.hpp>
    <optional>
    <set>
    <span>
    <sstream>
    <string>
    <thread>
    <vector>)
roofbench_precompiled(
  roofbench_precompiled_torch
  LINKS roofbench::torch OpenMP::OpenMP_CXX absl::statusor absl::str_format nlohmann_json::nlohmann_json
  HEADERS ${_torch_headers})
if(ROOFBENCH_TESTS)
  roofbench_precompiled(
    roofbench_precompiled_tests
    LINKS roofbench::torch OpenMP::OpenMP_CXX absl::statusor absl::str_format nlohmann_json::nlohmann_json GTest::gmock
    HEADERS ${_torch_headers} <gmock/gmock.h> <gtest/gtest.h>)
endif()
