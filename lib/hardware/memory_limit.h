// SPDX-License-Identifier: Apache-2.0
// A ceiling on this process's own memory, so that an overrun is an exception here and not the system's killer.
#pragma once

#include <string>

namespace roofbench::hardware {

// Bytes of private writable memory that this process may have: what it has now and most of `free_bytes` (see
// AvailableMemoryBytes). It replaces the last limit, so it can follow the free memory from case to case. Allocations
// beyond it fail with ENOMEM: std::bad_alloc, or LibTorch's error with the bytes that were asked for. Returns the
// limit; 0 where none was set: nothing is known about the memory, the user's own limit is lower, or under a sanitizer,
// whose shadow memory would count. `root` replaces "/" for tests.
double LimitMemory(double free_bytes, const std::string& root = "/");

// Takes the limit back.
void LiftMemoryLimit();

}  // namespace roofbench::hardware
