# SPDX-License-Identifier: Apache-2.0
# NVTX, NVIDIA's interface to profilers: only headers, which need neither a driver nor CUDA. A CUDA toolkit includes
# them, and so do the packages of a CUDA build of LibTorch. Without them --nvtx is rejected with the reason.
file(GLOB _nvtx_hints "${LibTorch_PREFIX}/../nvidia/*/include")
find_path(ROOFBENCH_NVTX_INCLUDE nvtx3/nvToolsExt.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_nvtx_hints} /usr/local/cuda/include
  DOC "folder of nvtx3/nvToolsExt.h")
mark_as_advanced(ROOFBENCH_NVTX_INCLUDE)
message(STATUS "NVTX: ${ROOFBENCH_NVTX_INCLUDE}")

# roofbench_use_nvtx(<target>): adds the headers to the target's own files, if they were found.
function(roofbench_use_nvtx target)
  if(ROOFBENCH_NVTX_INCLUDE)
    target_include_directories(${target} SYSTEM PRIVATE "${ROOFBENCH_NVTX_INCLUDE}")
    target_compile_definitions(${target} PRIVATE ROOFBENCH_HAS_NVTX=1)
  endif()
endfunction()
