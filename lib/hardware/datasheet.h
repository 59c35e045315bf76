// SPDX-License-Identifier: Apache-2.0
// Published peaks of data-center and desktop accelerators: dense rates, with the source of every row.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/workload/roofline.h"

namespace roofbench::hardware {

struct Datasheet {
  std::string_view name;         // as --reference spells it: "a100-sxm4-40gb"
  std::string_view prefix;       // of the counters compared with it: "a100"
  std::string_view title;        // for people: "NVIDIA A100-SXM4-40GB"
  std::string_view device_name;  // the driver's name for it, to recognize the device in use
  workload::Peaks peaks;         // FLOP/s (OP/s for int8) and bytes/s
  std::string_view source;
};

std::span<const Datasheet> Datasheets();

// Finds a row by `name`; nullptr if there is none.
const Datasheet* FindDatasheet(std::string_view name);

// Finds a row by the name that the driver reports; nullptr if the table does not have the device (no figure is
// guessed).
const Datasheet* RecognizeDevice(std::string_view driver_name);

}  // namespace roofbench::hardware
