// SPDX-License-Identifier: Apache-2.0
// The axes of a row's case, as columns of JSON and CSV.
#pragma once

#include <functional>
#include <string>

#include "lib/gbench/library.h"
#include "lib/run/session.h"
#include "lib/suite/point.h"

namespace roofbench {

// The axes that a row shows, with their values.
using AxesOfRow = std::function<AxisValues(const LibraryRun&)>;

// Every axis, also those that the name leaves out because they have their defaults. Not those that are called like a
// counter of the row, which stands for them. `session` must outlive the result.
AxesOfRow AxisColumns(const Session& session);

}  // namespace roofbench
