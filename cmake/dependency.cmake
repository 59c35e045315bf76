# SPDX-License-Identifier: Apache-2.0
# One dependency: the installed package, or else its source at a pinned release. A commit id is a hash of the whole
# tree, so it verifies the download. This file is installed with the CMake package, whose users need the same ones.
include(FetchContent)

# roofbench_dependency(<name> PACKAGE <package> TARGET <target> REPOSITORY <url> TAG <commit> DEBIAN <package>
#                      [PRIVATE] [ON <option>…] [OFF <option>…]): makes <target> available. The options are those of its
# source; users of the installed package do not need what is PRIVATE.
# -D ROOFBENCH_FETCH=<name>;… fetches it although it is installed; -D FETCHCONTENT_SOURCE_DIR_<NAME>=<folder> builds it
# from a folder and downloads nothing.
function(roofbench_dependency name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PRIVATE" "PACKAGE;TARGET;REPOSITORY;TAG;DEBIAN" "ON;OFF")
  string(TOUPPER ${name} upper)
  set(folder "${FETCHCONTENT_SOURCE_DIR_${upper}}")
  if(NOT (TARGET ${arg_TARGET} OR name IN_LIST ROOFBENCH_FETCH OR ROOFBENCH_FETCH STREQUAL "all" OR folder))
    find_package(${arg_PACKAGE} QUIET GLOBAL)
    set(exact "${${arg_PACKAGE}_VERSION}" EXACT)
  endif()
  if(TARGET ${arg_TARGET})
    message(STATUS "${name}: installed, ${${arg_PACKAGE}_VERSION} in ${${arg_PACKAGE}_DIR}")
    list(JOIN exact " " exact)
    if(NOT arg_PRIVATE)
      _roofbench_remember("find_dependency(${arg_PACKAGE} ${exact})")
    endif()
    return()
  endif()

  list(JOIN ARGV " " arguments)
  set(lines "set(ROOFBENCH_FETCH ${name})\nroofbench_dependency(${arguments})")
  if(folder)
    message(STATUS "${name}: from source, ${folder}")
    string(PREPEND lines "set(FETCHCONTENT_SOURCE_DIR_${upper} \"${folder}\" CACHE PATH \"Sources of ${name}\")\n")
  else()
    message(STATUS "${name}: from source, ${arg_REPOSITORY} at ${arg_TAG}")
    set(folder "${FETCHCONTENT_BASE_DIR}/${name}-src")
    _roofbench_download(${name} "${folder}" ${arg_REPOSITORY} ${arg_TAG} ${arg_PACKAGE} ${arg_DEBIAN})
  endif()
  if(NOT EXISTS "${folder}/CMakeLists.txt")
    message(FATAL_ERROR "${name}: ${folder} is not a source folder. FETCHCONTENT_SOURCE_DIR_${upper} names it.")
  endif()
  foreach(value ON OFF)
    foreach(option IN LISTS arg_${value})
      set(${option} ${value})
    endforeach()
  endforeach()
  # Build only the targets that this project links.
  add_subdirectory("${folder}" "${FETCHCONTENT_BASE_DIR}/${name}-build" EXCLUDE_FROM_ALL SYSTEM)
  if(NOT TARGET ${arg_TARGET})
    message(FATAL_ERROR "${name}: ${folder} does not define ${arg_TARGET}. It is another package, or another release.")
  endif()
  if(NOT arg_PRIVATE)
    _roofbench_remember("${lines}")
  endif()
endfunction()

# Remembers the lines by which a user of the installed package gets the same dependency.
function(_roofbench_remember lines)
  set_property(GLOBAL APPEND_STRING PROPERTY ROOFBENCH_DEPENDENCIES "${lines}\n")
endfunction()

# Downloads into `folder` in a separate process: a failure inside FetchContent would end CMake before this file can
# suggest a remedy.
function(_roofbench_download name folder repository commit package debian)
  if(FETCHCONTENT_FULLY_DISCONNECTED AND EXISTS "${folder}")
    return()
  endif()
  string(TOUPPER ${name} upper)
  set(script "${FETCHCONTENT_BASE_DIR}/${name}.cmake")
  set(base "${FETCHCONTENT_BASE_DIR}/${name}")
  file(WRITE "${script}"
    "include(FetchContent)\n"
    "FetchContent_Populate(${name} GIT_REPOSITORY ${repository} GIT_TAG ${commit} GIT_PROGRESS ON\n"
    "  SOURCE_DIR \"${folder}\" BINARY_DIR \"${base}-build\" SUBBUILD_DIR \"${base}-subbuild\")\n")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DCMAKE_GENERATOR=${CMAKE_GENERATOR}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}"
            -P "${script}"
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR
      "${name} could not be downloaded: ${repository} at ${commit}. The reason is above. Remedies:\n"
      "  install the package (apt-get install ${debian}; elsewhere, what brings ${package}Config.cmake: name its "
      "folder in CMAKE_PREFIX_PATH);\n"
      "  or bring its sources from another machine: -D FETCHCONTENT_SOURCE_DIR_${upper}=<folder>;\n"
      "  or let git use a mirror: git config --global url.<mirror>.insteadOf ${repository}")
  endif()
endfunction()
