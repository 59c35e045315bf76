// SPDX-License-Identifier: Apache-2.0
// Whether the clock of this process is that of the kernel: a program can define clock_gettime itself, or load it.
#pragma once

#include <string>

namespace roofbench::timing {

class ClockWatch {
 public:
  // From now on.
  ClockWatch() : begin_(Read()) {}
  // "the clock of this process …" where it went at another speed since then; "" if it did not.
  std::string Fault() const;

 private:
  struct Reading {
    double clock = 0;   // seconds of std::chrono
    double kernel = 0;  // of a system call
    double apart = 0;   // that the two may have been read
  };
  static Reading Read();

  Reading begin_;
};

}  // namespace roofbench::timing
