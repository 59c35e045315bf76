# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch and imports its CPU libraries as roofbench::torch.
#
# LibTorch's own TorchConfig.cmake is not used: in a CUDA build it stops if no CUDA toolkit is installed, although the
# CPU libraries are complete.
#
# Search order: Torch_ROOT and CMAKE_PREFIX_PATH (a LibTorch folder, site-packages/torch, or
# torch.utils.cmake_prefix_path), the project environment .venv, the active Python environment.
# Sets LibTorch_FOUND, LibTorch_PREFIX, LibTorch_VERSION.

set(_candidates "")
foreach(_prefix IN LISTS Torch_ROOT CMAKE_PREFIX_PATH)
  list(APPEND _candidates "${_prefix}" "${_prefix}/torch" "${_prefix}/../..")
endforeach()
if(DEFINED ENV{CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" _environment_prefixes "$ENV{CMAKE_PREFIX_PATH}")
  foreach(_prefix IN LISTS _environment_prefixes)
    list(APPEND _candidates "${_prefix}" "${_prefix}/torch" "${_prefix}/../..")
  endforeach()
endif()
foreach(_environment "${PROJECT_SOURCE_DIR}/.venv" "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}")
  if(_environment)
    file(GLOB _site_packages "${_environment}/lib/python3*/site-packages/torch")
    list(APPEND _candidates ${_site_packages})
  endif()
endforeach()

# Since 2.9 the version is in <torch/headeronly/version.h>; before, it was in <torch/version.h>.
function(_libtorch_version prefix result)
  set(version "")
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    set(header "${prefix}/include/${header}")
    if(NOT version AND EXISTS "${header}")
      file(READ "${header}" text)
      if(text MATCHES "_MAJOR ([0-9]+).*_MINOR ([0-9]+).*_PATCH ([0-9]+)")
        set(version "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
      endif()
    endif()
  endforeach()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

unset(LibTorch_PREFIX)
foreach(_candidate IN LISTS _candidates)
  if(EXISTS "${_candidate}/lib/libtorch_cpu.so" AND EXISTS "${_candidate}/include/ATen/ATen.h")
    _libtorch_version("${_candidate}" _version)
    if(_version VERSION_GREATER_EQUAL "${LibTorch_FIND_VERSION}")
      # Not where a link leads: in a clone whose .venv is one, ccache knows only paths below the clone as its own.
      get_filename_component(LibTorch_PREFIX "${_candidate}" ABSOLUTE)
      set(LibTorch_VERSION "${_version}")
      break()
    endif()
    message(STATUS "LibTorch ${_version} in ${_candidate} is older than ${LibTorch_FIND_VERSION}: not used")
  endif()
endforeach()

# tools/setup does not exist for users of an installed roofbench.
set(_remedy "Name a LibTorch folder, or that of Python's package torch, in CMAKE_PREFIX_PATH")
if(EXISTS "${PROJECT_SOURCE_DIR}/tools/setup")
  set(_remedy "Run ${PROJECT_SOURCE_DIR}/tools/setup, which installs it, or name its folder in CMAKE_PREFIX_PATH")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LibTorch_PREFIX
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${_remedy}")

if(LibTorch_FOUND AND NOT TARGET roofbench::torch)
  foreach(_library c10 torch_cpu)
    add_library(libtorch::${_library} SHARED IMPORTED GLOBAL)
    set_target_properties(
      libtorch::${_library}
      PROPERTIES IMPORTED_LOCATION "${LibTorch_PREFIX}/lib/lib${_library}.so"
                 # A CUDA build of libtorch_cpu finds its CUDA libraries at run time by its RPATH; the linker does not
                 # need them.
                 INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined")
  endforeach()
  add_library(roofbench_torch INTERFACE)
  add_library(roofbench::torch ALIAS roofbench_torch)
  target_include_directories(roofbench_torch SYSTEM INTERFACE "${LibTorch_PREFIX}/include"
                                                              "${LibTorch_PREFIX}/include/torch/csrc/api/include")
  target_compile_definitions(roofbench_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
  target_link_libraries(roofbench_torch INTERFACE libtorch::torch_cpu libtorch::c10)
endif()
