// SPDX-License-Identifier: Apache-2.0
// The pool of the program. The Python package, which must not bring a second OpenMP runtime besides LibTorch's, has its
// own (python/bindings/thread_pool.cc).
#include <omp.h>

#include <optional>

#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::kernels {

int Processors() {
  static const int processors = omp_get_num_procs();  // cached: the call queries the system each time
  return processors;
}

void ThreadPool::OnEach(FunctionRef<void(int index)> body) const {
  if (threads_ == 1) return body(0);
#pragma omp parallel num_threads(threads_)
  {
    // With fewer threads than asked for (a thread limit, a nested region), each takes several turns.
    for (int index = omp_get_thread_num(); index < threads_; index += omp_get_num_threads()) body(index);
  }
}

void ThreadPool::Region(FunctionRef<void(const Worker&)> body) const {
  std::optional<SpinBarrier> barrier;
#pragma omp parallel num_threads(threads_)
  {
#pragma omp single
    barrier.emplace(omp_get_num_threads());
    // `single` ends in a barrier of OpenMP, after which all threads see `barrier`.
    body(Worker(omp_get_thread_num(), omp_get_num_threads(), *barrier));
  }
}

}  // namespace roofbench::kernels
