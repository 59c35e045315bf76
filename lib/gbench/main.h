// SPDX-License-Identifier: Apache-2.0
// The program: for roofbench itself, and for anybody who links families of their own.
#pragma once

#include <string>

namespace roofbench {

// Who speaks. What is left out: the name is that of the executable file, the revision is not known.
struct Program {
  std::string name = {};
  std::string revision = {};
};

// Reads the command line, measures the registered families, writes what was asked for. Returns the exit status: 0; 1 if
// a case failed or an output could not be written; 2 if the command line was refused; 128 + n after signal n.
int Main(int argc, char** argv, const Program& program = {});

}  // namespace roofbench
