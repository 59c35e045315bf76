// Runs a function on every thread of the OpenMP pool that LibTorch uses too.
#pragma once

#include <functional>

namespace roofbench::hardware {

// Calls body(0) … body(threads - 1), each on its own thread of the OpenMP pool, and returns when all have returned.
// An exception of a body (the first, if several throw) passes through.
void RunOnTeam(int threads, const std::function<void(int thread)>& body);

}  // namespace roofbench::hardware
