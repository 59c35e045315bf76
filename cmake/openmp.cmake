# SPDX-License-Identifier: Apache-2.0
# One OpenMP runtime a process: with two, our probes and LibTorch's kernels would fight for the processors with a thread
# pool each. LibTorch brings its own libgomp, so that is the one to link. Needs LibTorch_PREFIX.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND EXISTS "${LibTorch_PREFIX}/lib/libgomp.so.1")
  set(OpenMP_gomp_LIBRARY "${LibTorch_PREFIX}/lib/libgomp.so.1" CACHE FILEPATH "The libgomp that LibTorch loads")
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)
