// SPDX-License-Identifier: Apache-2.0
// The main function of roofbench, and of programs that link their own families.
#pragma once

#include <string>

namespace roofbench {

// Identifies the program. By default, the name is that of the executable file, and the revision is unknown.
struct Program {
  std::string name = {};
  std::string revision = {};
};

// Parses the command line, measures the registered families, writes the requested outputs. Returns the exit status: 0;
// 1 if a case failed or an output could not be written; 2 if the command line was refused; 128 + n after signal n.
int Main(int argc, char** argv, const Program& program = {});

// Ends the process as `return status` in main does, but without the destructors of LibTorch's tables, which take 0.2 s.
// With them where something may be written last: by a profiler of a GPU, a preloaded library, or a sanitizer.
[[noreturn]] void Leave(int status);

}  // namespace roofbench
