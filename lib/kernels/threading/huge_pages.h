// SPDX-License-Identifier: Apache-2.0
// Weights on huge pages: a product that reads each byte once spends up to a third of its time on 4 KiB page walks.
#pragma once

#include <cstddef>

namespace roofbench::kernels {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Whether the others below do anything: they do until somebody says no. Of the whole process.
void AllowHugePages(bool allowed);

// Asks the system to put the memory on huge pages where it is touched from now on. Memory smaller than a huge page, and
// a system that refuses, are left as they are.
void PreferHugePages(const void* data, std::size_t bytes);

// The same for memory that has been touched before, too; the data stay. Takes about 0.3 ms a MiB.
void UseHugePages(const void* data, std::size_t bytes);

}  // namespace roofbench::kernels
