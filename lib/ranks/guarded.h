// SPDX-License-Identifier: Apache-2.0
// Turns the exceptions of c10d when another rank is gone into ContactLost.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "lib/ranks/board.h"

namespace roofbench::ranks {

// Calls a function of c10d. Errors of the connection become ContactLost, which names the operation and this rank: those
// of stores and of NCCL are DistError, Gloo's own are runtime errors. Those of wrong arguments are neither, and stay.
template <typename Call>
auto Guarded(const char* name, int rank, Call call) try {
  return call();
} catch (const c10::DistError& error) {
  throw ContactLost(absl::StrCat(name, " failed on rank ", rank, ": ", error.what_without_backtrace()));
} catch (const std::runtime_error& error) {
  throw ContactLost(absl::StrCat(name, " failed on rank ", rank, ": ", error.what()));
}

}  // namespace roofbench::ranks
