# SPDX-License-Identifier: Apache-2.0
# roofbench::compile_package: the header compile_package.h, which contains tools/compile_package.py as a string. So the
# program does not depend on the file.
set(script "${PROJECT_SOURCE_DIR}/tools/compile_package.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${script}")
file(READ "${script}" source)
configure_file("${PROJECT_SOURCE_DIR}/cmake/compile_package.h.in"
               "${PROJECT_BINARY_DIR}/generated/compile_package.h" @ONLY)
add_library(roofbench_compile_package INTERFACE)
add_library(roofbench::compile_package ALIAS roofbench_compile_package)
target_include_directories(roofbench_compile_package INTERFACE "${PROJECT_BINARY_DIR}/generated")
