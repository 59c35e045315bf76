# SPDX-License-Identifier: Apache-2.0
# One OpenMP runtime per process: with two, our probes and LibTorch's kernels would each have a thread pool and compete
# for the processors. LibTorch includes a libgomp, so link that one. Needs LibTorch_PREFIX.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND EXISTS "${LibTorch_PREFIX}/lib/libgomp.so.1")
  set(OpenMP_gomp_LIBRARY "${LibTorch_PREFIX}/lib/libgomp.so.1" CACHE FILEPATH "The libgomp that LibTorch loads")
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)
