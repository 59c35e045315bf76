// SPDX-License-Identifier: Apache-2.0
#include "lib/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace roofbench {

bool OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest number that is free, which is this one.
    if (open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) != stream) return false;
  }
  return true;
}

}  // namespace roofbench
