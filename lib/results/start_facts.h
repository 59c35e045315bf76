// SPDX-License-Identifier: Apache-2.0
// When and where a run began.
#pragma once

#include "lib/results/journal.h"

namespace roofbench {

// "started", the time of this call as Google Benchmark writes one in UTC, and "host_name", as printable text.
RunFacts StartFacts();

}  // namespace roofbench
