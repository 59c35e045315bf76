// SPDX-License-Identifier: Apache-2.0
// What oneDNN and MKL say of their own routines: those have no name in a profile, only the operators that call them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/observe/profile/tables.h"

namespace roofbench::observe {

// Turns on what the two libraries print of each call, and takes it from standard output, from its construction to its
// end. Printing costs time, so what is measured meanwhile is no sample. One at a time in a process. Takes nothing where
// the environment asks for these lines (ONEDNN_VERBOSE, DNNL_VERBOSE, MKL_VERBOSE): somebody else reads them.
class LibraryLog {
 public:
  // Throws std::system_error where standard output cannot be put elsewhere.
  LibraryLog();
  LibraryLog(const LibraryLog&) = delete;
  LibraryLog& operator=(const LibraryLog&) = delete;
  // Writes what others printed meanwhile to where it was meant for.
  ~LibraryLog();

  // What was printed so far; those of others too.
  std::string Text() const;

 private:
  int taken_ = -1;     // a file in memory in the place of standard output; -1: nothing is taken
  int standard_ = -1;  // standard output
};

// The routines in such a text, calls of one routine with one problem in one row, the longest in all first; lines of
// others are passed over. `step`: the seconds that shares are of; 0: no share.
//   onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,…,256x256:256x256,0.2241     milliseconds
//   MKL_VERBOSE SGEMM(N,N,256,256,256,0x7ffef28bbe80,…) 424.79us CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:1
// Formats: oneDNN's developer guide, "Verbose mode"; oneMKL's, "Using oneMKL Verbose Mode".
std::vector<RoutineRow> RoutinesIn(std::string_view text, double step);

}  // namespace roofbench::observe
