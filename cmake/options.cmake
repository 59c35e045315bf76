# SPDX-License-Identifier: Apache-2.0
# Options for users. Presets set the others.
option(ROOFBENCH_WERROR "Warnings are errors" OFF)
option(ROOFBENCH_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(ROOFBENCH_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
option(ROOFBENCH_PRECOMPILE "Precompile the headers of LibTorch" ${PROJECT_IS_TOP_LEVEL})
option(ROOFBENCH_CCACHE "Compile through ccache where it is installed" ON)
option(ROOFBENCH_EMULATE_TILES "Let every processor have tiles (Intel AMX), which are emulated: for tests alone" OFF)
set(ROOFBENCH_SANITIZE "" CACHE STRING "Value of -fsanitize=, for example address,undefined")
set(ROOFBENCH_FETCH "" CACHE STRING
    "Packages to build from source although they are installed: benchmark;googletest;absl;nlohmann_json;highway or all")

# Inside another project the build type is that project's.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo or MinSizeRel" FORCE)
endif()

# A build from nothing is shorter by a third; a change compiles seven more files, and editors do not find the commands of
# the joined ones. Other build types compile each file alone, which shows what it forgot to include.
set(_join OFF)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT ROOFBENCH_SANITIZE)
  set(_join ON)
endif()
option(ROOFBENCH_JOIN "Compile up to eight files of a layer that includes LibTorch as one" ${_join})
