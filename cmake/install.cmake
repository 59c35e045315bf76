# SPDX-License-Identifier: Apache-2.0
# The tree of `cmake --install`, relative to a prefix. The tree can be moved or copied to another machine:
#
#   bin/roofbench                         finds LibTorch by LD_LIBRARY_PATH, else where it was at build time
#   lib/roofbench/*.so*                   its other shared libraries, without LibTorch and the C++ runtime
#   lib/libroofbench_<layer>.a            the layers, and include/roofbench/lib/<layer>/*.h
#   lib/cmake/roofbench/                  find_package(roofbench): roofbench::cli and its dependencies
#   lib/libroofbench_cuda.so              opened by --device=cuda
#   libexec/roofbench/*_test              component `tests`, which is installed only when it is named;
#   bin/gpu_check                         component `tests`: the checks that need a GPU
#
# Component `gpu`, only when it is named: what bin/gpu_check runs, for a machine that takes few and small files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(ROOFBENCH_LIBRARY_DIR "${CMAKE_INSTALL_LIBDIR}/roofbench")
set(ROOFBENCH_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/roofbench")
set(ROOFBENCH_INCLUDE_DIR "${CMAKE_INSTALL_INCLUDEDIR}/roofbench")
set(ROOFBENCH_TEST_DIR "${CMAKE_INSTALL_LIBEXECDIR}/roofbench")

# Every machine has these or provides its own: the loader, the C and C++ runtimes, sanitizers; LibTorch and NVIDIA's.
set(ROOFBENCH_NOT_CARRIED
    "^ld-linux" "^lib(c|m|dl|rt|pthread|util|resolv|stdc\\+\\+|gcc_s|atomic|asan|ubsan|tsan|lsan)\\.so"
    "^lib(torch|c10|caffe2|shm|gomp|omp|iomp)" "^lib(cu|nv|nccl)")

# roofbench_install_program(<target> <folder> COMPONENTS <component>…): a program, and the shared libraries it needs.
# Components other than `roofbench` are installed only when they are named.
function(roofbench_install_program target folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "COMPONENTS")
  if(NOT ROOFBENCH_INSTALL)
    return()
  endif()
  # RUNPATH applies only to the direct dependencies of the program, not to theirs, so link all of them directly.
  target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  file(RELATIVE_PATH libraries "/${folder}" "/${ROOFBENCH_LIBRARY_DIR}")
  # LD_LIBRARY_PATH takes precedence, so it can name another LibTorch than that of the build.
  set_property(TARGET ${target} PROPERTY INSTALL_RPATH "$ORIGIN/${libraries}" "${LibTorch_PREFIX}/lib")
  foreach(name IN LISTS arg_COMPONENTS)
    set(component COMPONENT ${name})
    if(NOT name STREQUAL "roofbench")
      list(APPEND component EXCLUDE_FROM_ALL)
      # Strip symbols, a fifth of the size: the tree is copied to machines with little space.
      install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)" ${component})
    endif()
    install(TARGETS ${target} RUNTIME_DEPENDENCY_SET ${target}_${name} DESTINATION "${folder}" ${component})
    install(
      RUNTIME_DEPENDENCY_SET ${target}_${name}
      PRE_EXCLUDE_REGEXES ${ROOFBENCH_NOT_CARRIED}
      DESTINATION "${ROOFBENCH_LIBRARY_DIR}" ${component})
  endforeach()
endfunction()

# roofbench_install_layer(<name> <PUBLIC|INTERFACE>)
function(roofbench_install_layer name scope)
  if(NOT ROOFBENCH_INSTALL)
    return()
  endif()
  target_include_directories(roofbench_${name} ${scope} "$<INSTALL_INTERFACE:${ROOFBENCH_INCLUDE_DIR}>")
  install(TARGETS roofbench_${name} EXPORT roofbench ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT roofbench)
  install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/lib/${name}"
    DESTINATION "${ROOFBENCH_INCLUDE_DIR}/lib"
    COMPONENT roofbench
    FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
endfunction()

# roofbench_install_package(): the CMake package, once every layer is known.
function(roofbench_install_package)
  if(NOT ROOFBENCH_INSTALL)
    return()
  endif()
  get_property(dependencies GLOBAL PROPERTY ROOFBENCH_DEPENDENCIES)
  set(folder "${PROJECT_BINARY_DIR}/package")
  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/roofbenchConfig.cmake.in" "${folder}/roofbenchConfig.cmake"
    INSTALL_DESTINATION "${ROOFBENCH_PACKAGE_DIR}"
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  write_basic_package_version_file("${folder}/roofbenchConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(
    FILES "${folder}/roofbenchConfig.cmake" "${folder}/roofbenchConfigVersion.cmake"
          "${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake" "${PROJECT_SOURCE_DIR}/cmake/dependency.cmake"
          "${PROJECT_SOURCE_DIR}/cmake/openmp.cmake"
    DESTINATION "${ROOFBENCH_PACKAGE_DIR}"
    COMPONENT roofbench)
  install(EXPORT roofbench NAMESPACE roofbench:: FILE roofbenchTargets.cmake DESTINATION "${ROOFBENCH_PACKAGE_DIR}"
          COMPONENT roofbench)
  foreach(component tests gpu)
    install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/gpu_check" "${PROJECT_SOURCE_DIR}/tools/isolated.py"
            DESTINATION bin COMPONENT ${component} EXCLUDE_FROM_ALL)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/tools/gpu_checks"
            DESTINATION bin COMPONENT ${component} EXCLUDE_FROM_ALL
            FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
    install(FILES "${PROJECT_SOURCE_DIR}/tools/kernel_code/__init__.py"
                  "${PROJECT_SOURCE_DIR}/tools/kernel_code/measured.py"
                  "${PROJECT_SOURCE_DIR}/tools/kernel_code/gpu_expected.json"
            DESTINATION bin/kernel_code COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
  # The license of this project and of the installed libraries.
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT roofbench)
endfunction()
