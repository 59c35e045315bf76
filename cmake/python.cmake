# SPDX-License-Identifier: Apache-2.0
# The target roofbench_core: the extension of the Python package and its stub, put next to its Python sources, for
# PYTHONPATH=python/src. It is a project of its own, because its objects are position-independent and link no LibTorch.
# The interpreter is that of tools/setup, or else the first that CMake finds.
set(python_build "${PROJECT_BINARY_DIR}/python")
set(python_hint "")
if(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(python_hint "-DPython_EXECUTABLE=${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
add_custom_target(
  roofbench_core
  COMMAND "${CMAKE_COMMAND}" -S "${PROJECT_SOURCE_DIR}/python" -B "${python_build}" -G "${CMAKE_GENERATOR}"
          -DCMAKE_BUILD_TYPE=Release -DROOFBENCH_WERROR=${ROOFBENCH_WERROR}
          "-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=${PROJECT_SOURCE_DIR}/python/src/roofbench" ${python_hint}
          "-DROOFBENCH_FETCH=${ROOFBENCH_FETCH}" --log-level=WARNING
  COMMAND "${CMAKE_COMMAND}" --build "${python_build}" --target _core_stub
  USES_TERMINAL VERBATIM
  COMMENT "Python extension")
