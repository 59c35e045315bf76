# roofbench_layer(<name> [DEPENDS <target>…]): the folder lib/<name> as the static library roofbench::<name>.
# Its *_cuda.cc and *.cu files belong to the CUDA part (cmake/cuda.cmake).
# A layer without a .cc file yet is an interface, so that its dependants need not know.
function(roofbench_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS")
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lib/${name}/*.cc")
  list(FILTER sources EXCLUDE REGEX "_cuda\\.cc$")
  if(sources)
    add_library(roofbench_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(roofbench_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(roofbench::${name} ALIAS roofbench_${name})
  target_link_libraries(roofbench_${name} ${scope} roofbench::compiler ${arg_DEPENDS})
endfunction()
