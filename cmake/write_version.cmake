# SPDX-License-Identifier: Apache-2.0
# Script: writes OUTPUT with VERSION and the revision of SOURCE_DIR, "unknown" outside a git checkout.
set(revision unknown)
if(GIT)
  execute_process(
    COMMAND "${GIT}" -C "${SOURCE_DIR}" describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE described
    RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(revision "${described}")
    # Untracked sources make the tree dirty, too.
    execute_process(
      COMMAND "${GIT}" -C "${SOURCE_DIR}" ls-files --others --exclude-standard -- lib benchmarks cmake CMakeLists.txt
      OUTPUT_VARIABLE untracked
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(untracked AND NOT revision MATCHES "-dirty$")
      string(APPEND revision "-dirty")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
[[#pragma once
#define ROOFBENCH_VERSION "@VERSION@"
#define ROOFBENCH_GIT_REVISION "@revision@"
]] @ONLY)
