# Every dependency: the installed package first, else its source at a pinned release. A commit id is a hash of the whole
# tree, so GIT_TAG both names and verifies what is fetched.
include(FetchContent)
set(FETCHCONTENT_QUIET OFF)

# roofbench_dependency(<name> PACKAGE <package> TARGET <target> REPOSITORY <url> TAG <commit>): makes <target> available.
# -D ROOFBENCH_FETCH=<name>;… fetches it although it is installed; -D FETCHCONTENT_SOURCE_DIR_<NAME>=<folder> builds it
# from a folder and downloads nothing.
function(roofbench_dependency name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PACKAGE;TARGET;REPOSITORY;TAG" "")
  string(TOUPPER ${name} upper)
  if(NOT (name IN_LIST ROOFBENCH_FETCH OR ROOFBENCH_FETCH STREQUAL "all" OR FETCHCONTENT_SOURCE_DIR_${upper}))
    find_package(${arg_PACKAGE} QUIET GLOBAL)
  endif()
  if(TARGET ${arg_TARGET})
    message(STATUS "${name}: installed, ${${arg_PACKAGE}_VERSION} in ${${arg_PACKAGE}_DIR}")
    return()
  endif()
  message(STATUS "${name}: from source")
  FetchContent_Declare(${name} GIT_REPOSITORY ${arg_REPOSITORY} GIT_TAG ${arg_TAG} GIT_PROGRESS ON SYSTEM)
  FetchContent_MakeAvailable(${name})
  # Only what this project links is built.
  set_property(DIRECTORY "${${name}_SOURCE_DIR}" PROPERTY EXCLUDE_FROM_ALL TRUE)
  if(NOT TARGET ${arg_TARGET})
    message(FATAL_ERROR "${name} does not define ${arg_TARGET}")
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(LibTorch 2.9 REQUIRED)

# One OpenMP runtime a process: with two, our probes and LibTorch's kernels would fight for the processors with a thread
# pool each. LibTorch brings its own libgomp, so that is the one to link.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND EXISTS "${LibTorch_PREFIX}/lib/libgomp.so.1")
  set(OpenMP_gomp_LIBRARY "${LibTorch_PREFIX}/lib/libgomp.so.1" CACHE FILEPATH "The libgomp that LibTorch loads")
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Release 1.9.5 (Debian 12 has 1.7.1).
set(BENCHMARK_ENABLE_TESTING OFF)
set(BENCHMARK_ENABLE_INSTALL OFF)
set(BENCHMARK_ENABLE_WERROR OFF)
set(BENCHMARK_ENABLE_GTEST_TESTS OFF)
roofbench_dependency(
  benchmark
  PACKAGE benchmark
  TARGET benchmark::benchmark
  REPOSITORY https://github.com/google/benchmark.git
  TAG 192ef10025eb2c4cdd392bc502f0c852196baa48)

# Release 20250814.1 (Debian 12 has 20220623.1, whose string_view is its own type).
set(ABSL_PROPAGATE_CXX_STD ON)
set(ABSL_USE_SYSTEM_INCLUDES ON)
roofbench_dependency(
  absl
  PACKAGE absl
  TARGET absl::statusor
  REPOSITORY https://github.com/abseil/abseil-cpp.git
  TAG d38452e1ee03523a208362186fd42248ff2609f6)

# Release 3.11.3 (Debian 12 has 3.11.2).
set(JSON_BuildTests OFF)
roofbench_dependency(
  nlohmann_json
  PACKAGE nlohmann_json
  TARGET nlohmann_json::nlohmann_json
  REPOSITORY https://github.com/nlohmann/json.git
  TAG 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03)

# Release 1.3.0 (Debian 12 has 1.0.3, which the kernels are written for).
set(HWY_ENABLE_TESTS OFF)
set(HWY_ENABLE_EXAMPLES OFF)
set(HWY_ENABLE_INSTALL OFF)
roofbench_dependency(
  highway
  PACKAGE hwy
  TARGET hwy::hwy
  REPOSITORY https://github.com/google/highway.git
  TAG ac0d5d297b13ab1b89f48484fc7911082d76a93f)

if(ROOFBENCH_TESTS)
  # Release 1.17.0 (Debian 12 has 1.12.1).
  set(INSTALL_GTEST OFF)
  roofbench_dependency(
    googletest
    PACKAGE GTest
    TARGET GTest::gmock_main
    REPOSITORY https://github.com/google/googletest.git
    TAG 52eb8108c5bdec04579160ae17225d66034bd723)
endif()
