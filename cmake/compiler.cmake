# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, sanitizers and ccache. Kernels choose their instruction set at run time, so there is no
# -march: one binary runs, and measures correctly, on every processor.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
# With sanitizers, tests at -O0 take two to four times as long: every vector instruction is a call.
if(ROOFBENCH_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
else()
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
endif()

# Every target of this project links this; fetched dependencies do not.
add_library(roofbench_compiler INTERFACE)
add_library(roofbench::compiler ALIAS roofbench_compiler)
target_include_directories(roofbench_compiler INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(
  roofbench_compiler
  INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-fno-omit-frame-pointer>
            $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${ROOFBENCH_WERROR}>>:-Werror>
            $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-fno-omit-frame-pointer>
            $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${ROOFBENCH_WERROR}>>:-Werror=all-warnings;-Xcompiler=-Werror>)
# The program reports builds that are unsuitable for measurements.
set(build_type $<CONFIG>)
if(ROOFBENCH_SANITIZE)
  set(optimized 0)
else()
  set(optimized $<CONFIG:Release,RelWithDebInfo>)
endif()
if(ROOFBENCH_EMULATE_TILES)
  string(APPEND build_type " with emulated tiles")
  set(optimized 0)
  target_compile_definitions(roofbench_compiler INTERFACE ROOFBENCH_EMULATE_TILES=1)
endif()
target_compile_definitions(roofbench_compiler INTERFACE ROOFBENCH_BUILD_TYPE="${build_type}"
                                                        ROOFBENCH_OPTIMIZED=${optimized})

if(ROOFBENCH_SANITIZE)
  # vptr checks need the type information of every class, which LibTorch hides for some.
  add_compile_options(-fsanitize=${ROOFBENCH_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ROOFBENCH_SANITIZE})
endif()

if(ROOFBENCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CCACHE_PROGRAM ccache)
  mark_as_advanced(CCACHE_PROGRAM)
  if(CCACHE_PROGRAM)
    # The sloppiness enables caching with precompiled headers, and sharing the cache with processes without a locale,
    # such as those of cron. The base folder, and a hash without the working folder, let a clone in another folder reuse
    # the cache: that of the repository, of which python/ is a project, too.
    get_filename_component(repository "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros,locale
                                    "CCACHE_BASEDIR=${repository}" CCACHE_NOHASHDIR=1 "${CCACHE_PROGRAM}")
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endif()
