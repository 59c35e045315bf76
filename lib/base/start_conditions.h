// SPDX-License-Identifier: Apache-2.0
// What a process needs before its libraries start. Nothing here needs an initialized library, or allocates.
#pragma once

namespace roofbench {

// Why the process cannot do anything, with the way out; nullptr if it can. A deleted working folder is such a reason:
// libraries look for their own files by it, and end the process.
const char* WhyNotToStart();

// Raises a small limit of the stack (ulimit -s), which this process and its threads would exceed, as far as the system
// permits. Call it while there is one thread. Returns why that is not enough, or nullptr.
const char* RaiseStackLimit();

}  // namespace roofbench
