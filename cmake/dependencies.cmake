# SPDX-License-Identifier: Apache-2.0
# Linked libraries. A user of the installed package finds the same releases.
include(cmake/dependency.cmake)

find_package(Threads REQUIRED)
find_package(LibTorch 2.9 REQUIRED)

include(cmake/openmp.cmake)

# Release 1.9.5 (Debian 12 has 1.7.1).
roofbench_dependency(
  benchmark
  PACKAGE benchmark
  TARGET benchmark::benchmark
  REPOSITORY https://github.com/google/benchmark.git
  TAG 192ef10025eb2c4cdd392bc502f0c852196baa48
  DEBIAN libbenchmark-dev
  OFF BENCHMARK_ENABLE_TESTING BENCHMARK_ENABLE_INSTALL BENCHMARK_ENABLE_WERROR BENCHMARK_ENABLE_GTEST_TESTS)

include(cmake/packages.cmake)

if(ROOFBENCH_TESTS)
  # Release 1.17.0 (Debian 12 has 1.12.1).
  roofbench_dependency(
    googletest
    PACKAGE GTest
    TARGET GTest::gmock_main
    REPOSITORY https://github.com/google/googletest.git
    TAG 52eb8108c5bdec04579160ae17225d66034bd723
    DEBIAN libgmock-dev
    PRIVATE
    OFF INSTALL_GTEST)
endif()
