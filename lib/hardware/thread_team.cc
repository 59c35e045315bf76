#include "lib/hardware/thread_team.h"

#include <omp.h>

#include <exception>

namespace roofbench::hardware {

void RunOnTeam(int threads, const std::function<void(int thread)>& body) {
  if (threads == 1) {
    body(0);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
  {
    // OpenMP may grant fewer threads (a thread limit, a nested region): then each takes several parts.
    for (int thread = omp_get_thread_num(); thread < threads; thread += omp_get_num_threads()) {
      try {
        body(thread);
      } catch (...) {
#pragma omp critical(roofbench_team_failure)
        if (!failure) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace roofbench::hardware
