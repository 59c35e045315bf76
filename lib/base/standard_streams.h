// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error, for a program that may have been started without them.
#pragma once

namespace roofbench {

// Opens /dev/null in the place of those that are closed: the next file that the program opens would get the number, and
// with it what is meant for a terminal. Must come before anything else opens a file. False if there is no /dev/null.
bool OpenStandardStreams();

}  // namespace roofbench
