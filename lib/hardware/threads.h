// SPDX-License-Identifier: Apache-2.0
// The threads of this process that work, as the kernel lists them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <set>

namespace roofbench::hardware {

std::set<pid_t> Threads();

// Whether it runs or waits for a processor. Processor time would tell too late: the kernel books that of other threads
// at its ticks, and on a busy machine a thread that waits has none.
bool IsAtWork(pid_t thread);

class StartedThreads {
 public:
  // How many threads that were started since this was made work on, which cannot be taken back. Pools spin for a moment
  // after their work: where there are such threads, it waits up to half a second for them. 0 where OpenMP is told to
  // spin longer, by OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME.
  std::size_t AtWork() const;

 private:
  std::set<pid_t> before_ = Threads();
};

}  // namespace roofbench::hardware
