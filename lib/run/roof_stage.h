// SPDX-License-Identifier: Apache-2.0
// The first stage of a run: obtains the roofs that its cases need, measured now or at an earlier start on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/run/run_options.h"
#include "lib/suite/plan.h"

namespace roofbench {

// Origin of a run's roofs, for the context of its results.
struct RoofOrigin {
  std::string text = "unknown";           // "measured", "measured 12 min before, …" or "off"
  std::optional<double> other_load = {};  // share of the processors that others used; nullopt: unknown
  std::optional<double> load_now = {};    // the same of what was measured now; nullopt: nothing was
  bool is_reused = false;                 // all of them or some
};

// Readings kept in a file for the next start: written after every measurement on a quiet machine, and valid for an hour
// on the same device, boot, program, library, allocator and thread count.
class KeptRoofs {
 public:
  // `folder` must be private (PrivateCacheFolder).
  KeptRoofs(std::string folder, const RunOptions& options, const Device& device);

  struct Content {
    std::vector<hardware::RoofReading> readings;
    std::vector<double> measured;  // when, in seconds since 1970
    double age_seconds = 0;        // of the oldest
    std::optional<double> other_load;
  };
  // Loads readings that are still valid at `now` (seconds since 1970); empty if there are none or the file is
  // invalid or of another machine or program.
  Content Load(double now) const;
  // Saves the readings; those that `Load` returned keep their times.
  absl::Status Save(const std::vector<hardware::RoofReading>& readings, double now,
                    std::optional<double> other_load) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string key_;
};

// Obtains the roofs of a plan according to options.roofs. With kReuse, measured roofs are kept for the next start,
// unless other programs used the processors during the measurement.
RoofOrigin PrepareRoofs(const RunOptions& options, const std::vector<PlannedCase>& plan, Device& device);

// Measures the roofs and returns the share of processor time that other programs and the hypervisor took.
double CalibrateAndWatch(const hardware::RoofNeeds& needs, Device& device);

}  // namespace roofbench
