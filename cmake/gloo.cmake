# SPDX-License-Identifier: Apache-2.0
# The headers of Gloo, which LibTorch's own header of its Gloo backend needs and its package does not have. The library
# itself is inside libtorch_cpu. Only pointers to Gloo's classes cross the boundary; tests/ranks proves that they fit.
# Without the headers, cases of several ranks are skipped with the reason.
find_path(ROOFBENCH_GLOO_INCLUDE gloo/transport/device.h DOC "folder of gloo/transport/device.h")
mark_as_advanced(ROOFBENCH_GLOO_INCLUDE)
set(ROOFBENCH_HAS_GLOO OFF)
if(ROOFBENCH_GLOO_INCLUDE)
  file(STRINGS "${ROOFBENCH_GLOO_INCLUDE}/gloo/config.h" _gloo_version REGEX "define GLOO_VERSION_M[AI][A-Z]+ [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" _gloo_version "${_gloo_version}")
  list(JOIN _gloo_version "." _gloo_version)
  if(_gloo_version STREQUAL "0.5")  # that of LibTorch since 2019
    set(ROOFBENCH_HAS_GLOO ON)
  else()
    message(STATUS "Gloo ${_gloo_version} in ${ROOFBENCH_GLOO_INCLUDE}: not used, LibTorch has 0.5")
  endif()
endif()
message(STATUS "Gloo (cases of several ranks): ${ROOFBENCH_HAS_GLOO}")
if(ROOFBENCH_HAS_GLOO)
  target_include_directories(roofbench_ranks SYSTEM PRIVATE "${ROOFBENCH_GLOO_INCLUDE}")
  target_compile_definitions(roofbench_ranks PRIVATE USE_C10D_GLOO)
endif()
