// SPDX-License-Identifier: Apache-2.0
// Roofs kept in a file for the next process on this machine, of the program or of Python: written after a measurement
// on a quiet machine, and valid for an hour.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/hardware/roofs/roof_meter.h"

namespace roofbench {

// Everything that affects the rate of our own probes, except momentary conditions. `context`: the facts of the device.
struct RoofConditions {
  std::string version;  // this and the next two: of our probes
  std::string revision;
  std::string build_type;
  std::string kind;  // of the device
  std::string name;
  int threads = 0;
  std::vector<std::pair<std::string, std::string>> context;

  std::string Key() const;  // also names the boot
};

class KeptRoofs {
 public:
  // Roofs are kept only if other programs used at most this share of the processors while they were measured.
  static constexpr double kQuietShare = 0.05;

  // `folder` must be private (PrivateCacheFolder). `library` names what multiplies matrices here, with its version: the
  // roofs of arithmetic are kept for each library apart, those of memory for all.
  KeptRoofs(const std::string& folder, const RoofConditions& conditions, std::string library);

  struct Content {
    std::vector<hardware::RoofReading> readings;
    std::vector<double> measured;  // when, in seconds since 1970
    double age_seconds = 0;        // of the oldest
    std::optional<double> other_load;

    bool Has(const hardware::RoofReading& reading) const;
  };
  // Loads readings that are still valid at `now` (seconds since 1970); empty if there are none or the file is
  // invalid or of another machine or version.
  Content Load(double now) const;
  // Saves the readings; those that `Load` returned keep their times, and those for other libraries stay.
  absl::Status Save(const std::vector<hardware::RoofReading>& readings, double now,
                    std::optional<double> other_load) const;

  const std::string& path() const { return path_; }

 private:
  struct Kept {
    hardware::RoofReading reading;
    std::string library;
    double measured = 0;
  };
  struct File {
    std::vector<Kept> kept;  // those that are still valid
    std::optional<double> other_load;
  };
  File Read(double now) const;
  // The library that the reading depends on; empty: none.
  std::string LibraryOf(const hardware::RoofReading& reading) const;

  std::string key_;
  std::string path_;
  std::string library_;
};

// The time for Load and Save.
double SecondsSince1970();

}  // namespace roofbench
