// SPDX-License-Identifier: Apache-2.0
// Which measured roofs cannot be those of a GPU with this datasheet.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "lib/workload/dtype.h"
#include "lib/workload/roofline.h"

namespace roofbench {

// Shares of the datasheet. Products reach 0.6 to 0.9 of it (8-bit ones the least), and streams 0.85 to 0.95; tf32 in
// place of fp32 would be 5 of it, and a precision that is emulated a fraction.
struct Share {
  double least;
  double most;
};
constexpr Share kStreams = {.least = 0.6, .most = 1.02};
constexpr Share kProducts = {.least = 0.4, .most = 1.05};

// "bf16 0.12 of its datasheet" for each; `needed` are the precisions that the device supports. Rates that the sheet
// lacks have no bounds, but must be there.
inline std::vector<std::string> ImplausibleRoofs(const workload::Peaks& measured, const workload::Peaks& sheet,
                                                 const std::vector<workload::Dtype>& needed) {
  std::vector<std::string> found;
  const auto judge = [&](const std::string& name, double rate, double listed, Share share) {
    if (rate <= 0) {
      found.push_back(name + " is unknown");
    } else if (listed > 0 && (rate < share.least * listed || rate > share.most * listed)) {
      found.push_back(name + " " + std::to_string(rate / listed) + " of its datasheet");
    }
  };
  judge("read", measured.read, sheet.read, kStreams);
  judge("copy", measured.copy, sheet.read, kStreams);
  judge("update", measured.update, sheet.read, kStreams);
  judge("write", measured.write, sheet.read, kStreams);
  for (const workload::Dtype dtype : needed) {
    judge(std::string(Name(dtype)), measured.flops_per_second[Index(dtype)], sheet.flops_per_second[Index(dtype)],
          kProducts);
  }
  return found;
}

}  // namespace roofbench
