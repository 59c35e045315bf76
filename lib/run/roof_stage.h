// SPDX-License-Identifier: Apache-2.0
// The first stage of a run: the roofs that its cases need, measured now or taken from an earlier start on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

// Where the roofs of a run come from, for the context of its results.
struct RoofOrigin {
  std::string text = "unknown";           // "measured", "measured 12 min before, …" or "off"
  std::optional<double> other_load = {};  // share of the processors that others used meanwhile; nullopt: unknown
};

// Readings kept in a file for the next start: written after every measurement on a quiet machine, and valid for an hour
// on the same device, boot, program, library, allocator and threads.
class KeptRoofs {
 public:
  // `folder` must be private (PrivateCacheFolder).
  KeptRoofs(std::string folder, const RunOptions& options, const Device& device);

  struct Content {
    std::vector<hardware::RoofReading> readings;
    double age_seconds = 0;  // of the oldest
    std::optional<double> other_load;
  };
  // What is still valid `now` (seconds since 1970); empty if there is none, or if the file is not one of ours.
  Content Load(double now) const;
  // Keeps the readings, and the time of those that `Load` gave.
  absl::Status Save(const std::vector<hardware::RoofReading>& readings, double now,
                    std::optional<double> other_load) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string key_;
};

// The roofs that a plan needs.
hardware::RoofNeeds NeedsOf(const std::vector<PlannedCase>& plan);

// Gets these roofs as options.roofs says. Those that are measured are kept for the next start, unless it is to measure
// them again or others used the processors meanwhile.
RoofOrigin PrepareRoofs(const RunOptions& options, const hardware::RoofNeeds& needs, Device& device);

// Measures the roofs and returns the share of the processors' time that other programs and the hypervisor took.
double CalibrateAndWatch(const hardware::RoofNeeds& needs, Device& device);

}  // namespace roofbench
