// SPDX-License-Identifier: Apache-2.0
// Reads the verbose output of oneDNN and MKL: their routines do not appear in a profile, only the operators that call
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/observe/profile/tables.h"

namespace roofbench::observe {

// Turns on the verbose output of both libraries and captures standard output, from construction to destruction.
// Printing costs time: do not use steps under it as samples. One at a time in a process. Captures nothing if the
// environment requests the output (ONEDNN_VERBOSE, DNNL_VERBOSE, MKL_VERBOSE).
class LibraryLog {
 public:
  // Throws std::system_error if standard output cannot be redirected.
  LibraryLog();
  LibraryLog(const LibraryLog&) = delete;
  LibraryLog& operator=(const LibraryLog&) = delete;
  // Forwards the captured lines of others to the original standard output.
  ~LibraryLog();

  // The captured text so far, including the lines of others.
  std::string Text() const;

 private:
  int taken_ = -1;     // the memory file that replaces standard output; -1 if nothing is captured
  int standard_ = -1;  // the original standard output
};

// The routines in such a text, one row for each routine and problem, longest total first. Other lines are ignored.
// `step`: the seconds that shares relate to; 0 for no shares.
//   onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,…,256x256:256x256,0.2241 (ms)
//   MKL_VERBOSE SGEMM(N,N,256,256,256,0x7ffef28bbe80,…) 424.79us CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:1
// Formats: oneDNN's developer guide, "Verbose mode"; oneMKL's, "Using oneMKL Verbose Mode".
std::vector<RoutineRow> RoutinesIn(std::string_view text, double step);

}  // namespace roofbench::observe
