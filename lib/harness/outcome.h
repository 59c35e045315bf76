// Everything that is known about one case after it ran (or did not).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/harness/case.h"
#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"
#include "lib/workload/cost.h"

namespace roofbench {

enum class Verdict { kMeasured, kSkipped, kFailed, kInterrupted };
std::string_view Name(Verdict verdict);  // "measured", "skipped", "failed", "interrupted"

// One counter of a case, ready to print.
using CounterValue = std::pair<std::string, double>;

struct Outcome {
  std::string name;  // of the case, without the library's suffix
  int repetition = 0;
  Verdict verdict = Verdict::kMeasured;
  std::string reason;  // why it was skipped or failed
  workload::Cost cost;
  timing::Samples samples;
  timing::Summary summary;
  std::vector<std::string> phases;
  std::vector<double> roof_ratios;  // one a chunk: time at the roof beside it over the chunk's median
  std::string roof_name;
  double peak_memory_bytes = 0;
  double stolen_share = 0;  // of the processors' time during the case, taken by the hypervisor
  double others_share = 0;  // and used by other programs
  bool throttled = false;
  double parameters = 0;
  TokenWork token_work;
  std::vector<CounterValue> figures;
  std::vector<CounterValue> counters;  // all of the above as the contract's counters
};

}  // namespace roofbench
