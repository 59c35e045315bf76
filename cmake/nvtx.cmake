# SPDX-License-Identifier: Apache-2.0
# NVTX, NVIDIA's interface to profilers: headers alone, which need no driver and no CUDA. A CUDA toolkit brings them, and
# so do the packages beside a CUDA build of LibTorch. Without them --nvtx is refused with the reason.
file(GLOB _nvtx_hints "${LibTorch_PREFIX}/../nvidia/*/include")
find_path(ROOFBENCH_NVTX_INCLUDE nvtx3/nvToolsExt.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_nvtx_hints} /usr/local/cuda/include
  DOC "folder of nvtx3/nvToolsExt.h")
mark_as_advanced(ROOFBENCH_NVTX_INCLUDE)
message(STATUS "NVTX: ${ROOFBENCH_NVTX_INCLUDE}")

# roofbench_use_nvtx(<target>): lets a target's own files see the headers, where there are any.
function(roofbench_use_nvtx target)
  if(ROOFBENCH_NVTX_INCLUDE)
    target_include_directories(${target} SYSTEM PRIVATE "${ROOFBENCH_NVTX_INCLUDE}")
    target_compile_definitions(${target} PRIVATE ROOFBENCH_HAS_NVTX=1)
  endif()
endfunction()
