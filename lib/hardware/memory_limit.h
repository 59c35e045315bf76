// SPDX-License-Identifier: Apache-2.0
// A limit on this process's own memory, so that an overrun raises an exception here instead of invoking the system's
// out-of-memory killer.
#pragma once

#include <string>

namespace roofbench::hardware {

// Limits the private writable memory of this process to its current size plus most of `free_bytes` (see
// AvailableMemoryBytes). It replaces the last limit, so it can follow the free memory from case to case. Allocations
// beyond it fail with ENOMEM: std::bad_alloc, or LibTorch's error with the requested bytes. Returns the limit in bytes;
// 0 if none was set: the free memory is unknown, the user's own limit is lower, or a sanitizer is active, whose shadow
// memory would count. `root` replaces "/" for tests.
double LimitMemory(double free_bytes, const std::string& root = "/");

// Removes the limit.
void LiftMemoryLimit();

}  // namespace roofbench::hardware
