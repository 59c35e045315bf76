# SPDX-License-Identifier: Apache-2.0
# The CUDA part: the shared library roofbench_cuda, which the program opens to use a GPU. It contains everything that
# needs a symbol of the CUDA runtime or of LibTorch's CUDA libraries, so the program starts, and measures the CPU,
# without a driver and without those libraries.
#
# ROOFBENCH_CUDA=AUTO builds it if a toolkit and a CUDA build of LibTorch are found and compatible; ON stops if they are
# not; OFF omits it. Sets ROOFBENCH_HAS_CUDA.
set(ROOFBENCH_CUDA AUTO CACHE STRING "Build the CUDA part: AUTO, ON or OFF")
set_property(CACHE ROOFBENCH_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT ROOFBENCH_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ROOFBENCH_CUDA=${ROOFBENCH_CUDA}: expected AUTO, ON or OFF")
endif()
# Machine code for A100, H100 and H200, and PTX for later GPUs.
set(ROOFBENCH_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING "GPUs that our kernels are compiled for")

# Sets the reason why the CUDA part cannot be built; empty if it can. Also enables the language.
macro(_roofbench_find_cuda)
  set(_cuda_missing "")
  if(ROOFBENCH_SANITIZE)
    set(_cuda_missing "nvcc does not support -fsanitize=${ROOFBENCH_SANITIZE}")
  elseif(NOT EXISTS "${LibTorch_PREFIX}/lib/libtorch_cuda.so" OR NOT EXISTS "${LibTorch_PREFIX}/lib/libc10_cuda.so")
    set(_cuda_missing "LibTorch in ${LibTorch_PREFIX} is a build without CUDA")
  else()
    # The process must have one CUDA runtime: LibTorch's, from a separate package or (unpacked LibTorch) its own folder.
    file(GLOB _cudart "${LibTorch_PREFIX}/../nvidia/*/lib/libcudart.so.*" "${LibTorch_PREFIX}/lib/libcudart*.so.*")
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      set(_cuda_missing "no CUDA compiler found (set CUDACXX=<toolkit>/bin/nvcc)")
    elseif(NOT _cudart)
      set(_cuda_missing "the CUDA runtime that LibTorch in ${LibTorch_PREFIX} loads was not found next to it")
    else()
      list(GET _cudart 0 _cudart)
      set(CMAKE_CUDA_ARCHITECTURES "${ROOFBENCH_CUDA_ARCHITECTURES}")
      enable_language(CUDA)
      find_package(CUDAToolkit)
      string(REGEX MATCH "libcudart[^/]*\\.so\\.([0-9]+)" _cudart_name "${_cudart}")
      if(NOT CUDAToolkit_FOUND)
        set(_cuda_missing "the CUDA toolkit is incomplete: its headers were not found")
      elseif(NOT CUDAToolkit_VERSION_MAJOR EQUAL CMAKE_MATCH_1)
        set(_cuda_missing
            "the toolkit is CUDA ${CUDAToolkit_VERSION} and LibTorch was built with CUDA ${CMAKE_MATCH_1}")
      endif()
    endif()
  endif()
endmacro()

set(ROOFBENCH_HAS_CUDA OFF)
if(ROOFBENCH_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: left out (ROOFBENCH_CUDA=OFF)")
else()
  _roofbench_find_cuda()
  if(NOT _cuda_missing)
    set(ROOFBENCH_HAS_CUDA ON)
    message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, runtime ${_cudart}, for ${ROOFBENCH_CUDA_ARCHITECTURES}")
  elseif(ROOFBENCH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ROOFBENCH_CUDA=ON, but ${_cuda_missing}")
  else()
    message(STATUS "CUDA: left out: ${_cuda_missing}")
  endif()
endif()

if(ROOFBENCH_HAS_CUDA)
  # CMake 3.25 does not support C++20 with this nvcc. Headers that a .cu file includes must be C++17.
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  foreach(_library c10_cuda torch_cuda)
    add_library(libtorch::${_library} SHARED IMPORTED GLOBAL)
    set_target_properties(libtorch::${_library} PROPERTIES IMPORTED_LOCATION
                                                           "${LibTorch_PREFIX}/lib/lib${_library}.so")
  endforeach()
  add_library(libtorch::cudart SHARED IMPORTED GLOBAL)
  set_target_properties(libtorch::cudart PROPERTIES IMPORTED_LOCATION "${_cudart}")
  target_include_directories(libtorch::cudart SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
endif()

# roofbench_cuda_module(): the *_cuda.cc and *.cu files of lib as the shared library roofbench_cuda. It is in the folder
# lib next to bin, as in an installed tree; lib/device/open_device.cc looks for it there.
function(roofbench_cuda_module)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lib/*_cuda.cc" "${PROJECT_SOURCE_DIR}/lib/*.cu")
  find_path(ROOFBENCH_NCCL_INCLUDE nccl.h HINTS "${LibTorch_PREFIX}/../nvidia/nccl/include" DOC "folder of nccl.h")
  mark_as_advanced(ROOFBENCH_NCCL_INCLUDE)
  if(ROOFBENCH_NCCL_INCLUDE)
    # The library is inside libtorch_cuda, or next to it.
    set_source_files_properties("${PROJECT_SOURCE_DIR}/lib/ranks/nccl_cuda.cc" PROPERTIES
      COMPILE_DEFINITIONS USE_C10D_NCCL COMPILE_OPTIONS "-isystem;${ROOFBENCH_NCCL_INCLUDE}")
  else()
    message(STATUS "NCCL: left out, no nccl.h (cases of several ranks then run on processors alone)")
    list(FILTER sources EXCLUDE REGEX "/nccl_cuda\\.cc$")
  endif()
  add_library(roofbench_cuda SHARED ${sources})
  add_library(roofbench::cuda ALIAS roofbench_cuda)
  set_target_properties(roofbench_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
                                                  POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(roofbench_cuda PUBLIC libtorch::cudart PRIVATE roofbench::compiler roofbench::torch
                                                                       libtorch::torch_cuda libtorch::c10_cuda)
  # A missing symbol fails the link, not the first run on a GPU.
  target_link_options(roofbench_cuda PRIVATE LINKER:--no-undefined)
  # The program opens it at run time, so building the program must build it.
  add_dependencies(roofbench_device roofbench_cuda)
  if(ROOFBENCH_INSTALL)
    # Always in lib, not CMAKE_INSTALL_LIBDIR: the program looks there. LD_LIBRARY_PATH takes precedence over the
    # LibTorch of the build, as for the program.
    set_property(TARGET roofbench_cuda PROPERTY INSTALL_RPATH "${LibTorch_PREFIX}/lib")
    target_link_options(roofbench_cuda PRIVATE LINKER:--enable-new-dtags)
    install(TARGETS roofbench_cuda LIBRARY DESTINATION lib COMPONENT roofbench)
    install(TARGETS roofbench_cuda LIBRARY DESTINATION lib COMPONENT gpu EXCLUDE_FROM_ALL)
  endif()
endfunction()
