# SPDX-License-Identifier: Apache-2.0
# roofbench_layer(<name> [PRECOMPILED] [DEPENDS <target>…] [PRIVATE <target>…]): the folder lib/<name>, with subfolders,
# as the static library roofbench::<name>, which is installed with its headers. DEPENDS is visible to its users, PRIVATE
# is not. PRECOMPILED is for layers with many files that include LibTorch and OpenMP. *_cuda.cc and *.cu files belong to
# the CUDA part (cmake/cuda.cmake). A layer without a .cc file is an INTERFACE library.
function(roofbench_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PRECOMPILED" "" "DEPENDS;PRIVATE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lib/${name}/*.cc")
  list(FILTER sources EXCLUDE REGEX "_cuda\\.cc$")
  if(sources)
    add_library(roofbench_${name} STATIC ${sources})
    # Users of the layer do not inherit our warnings.
    target_link_libraries(roofbench_${name} PRIVATE $<BUILD_INTERFACE:roofbench::compiler>)
    if(arg_PRECOMPILED)
      roofbench_use_precompiled(roofbench_${name} roofbench_precompiled_torch)
    endif()
    set(scope PUBLIC)
  else()
    add_library(roofbench_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(roofbench::${name} ALIAS roofbench_${name})
  set_property(GLOBAL APPEND PROPERTY ROOFBENCH_LAYERS ${name})
  set_property(TARGET roofbench_${name} PROPERTY EXPORT_NAME ${name})
  target_compile_features(roofbench_${name} ${scope} cxx_std_20)
  target_include_directories(roofbench_${name} ${scope} "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  get_property(layers GLOBAL PROPERTY ROOFBENCH_LAYERS)
  foreach(target IN LISTS arg_DEPENDS)
    string(REGEX REPLACE "^roofbench::" "" layer "${target}")
    if(layer IN_LIST layers)
      target_link_libraries(roofbench_${name} ${scope} ${target})
    else()
      # Not installed with this project: the CMake package finds or builds the same one. $<1:…> prevents CMake from
      # resolving the name here.
      target_link_libraries(roofbench_${name} ${scope} $<BUILD_INTERFACE:${target}>
                                                       $<INSTALL_INTERFACE:$<1:${target}>>)
    endif()
  endforeach()
  foreach(target IN LISTS arg_PRIVATE)
    target_link_libraries(roofbench_${name} PRIVATE $<BUILD_INTERFACE:${target}>)
  endforeach()
  roofbench_install_layer(${name} ${scope})
endfunction()
