// SPDX-License-Identifier: Apache-2.0
// Counts the energy of the samples alone, without the roof probes between their chunks.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "lib/device/device.h"
#include "lib/hardware/nvml.h"
#include "lib/timing/clock.h"

namespace roofbench {

// Joules since a fixed moment; nullopt where the machine does not report them.
using JoulesRead = std::function<std::optional<double>()>;

// The root of the counters; tests pass their own.
struct EnergySources {
  std::string root = "/";
  std::string nvml = hardware::kNvmlLibrary;
};

// The device's counter: the driver's for a GPU, the machine's for processors (lib/hardware/energy.h). nullptr for a GPU
// whose driver does not answer.
JoulesRead JoulesOf(const Device& device, const EnergySources& sources = {});

// Wraps a clock and adds up the energy of its chunks.
class EnergyClock final : public timing::ForwardingClock {
 public:
  // Clock and counter must outlive it. `least_seconds`: of all chunks together, below which the steps of the counter
  // are a large part of the energy.
  EnergyClock(timing::Clock& clock, const JoulesRead& joules, double least_seconds)
      : ForwardingClock(clock), joules_(joules), least_seconds_(least_seconds) {}

  // Discards the count at the end of the warm-up.
  void Restart() { joules_used_ = seconds_ = 0; }
  // Joules divided by seconds over all chunks since; nullopt if a chunk could not be read, or if the chunks were short.
  std::optional<double> Watts() const;

  void BeginChunk(std::size_t marks) override;
  std::span<const double> EndChunk() override;

 private:
  std::optional<double> Read() const { return joules_ ? joules_() : std::nullopt; }

  const JoulesRead& joules_;
  const double least_seconds_;
  std::optional<double> before_;
  std::optional<double> joules_used_ = 0;
  double seconds_ = 0;
};

}  // namespace roofbench
