// SPDX-License-Identifier: Apache-2.0
// Counts what the samples alone take of energy: not what lies between their chunks, the probes of the roof.
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

// Joules since some moment; nullopt where the machine does not tell.
using JoulesRead = std::function<std::optional<double>()>;

// Where the counters are; a test has its own.
struct EnergySources {
  std::string root = "/";
  std::string nvml = hardware::kNvmlLibrary;
};

// The counter of the device: of a GPU its driver's, of processors that of the machine (lib/hardware/energy.h). nullptr
// for a GPU whose driver does not answer.
JoulesRead JoulesOf(const Device& device, const EnergySources& sources = {});

// Another clock, and the energy of its chunks.
class EnergyClock final : public timing::Clock {
 public:
  // Both must outlive the clock.
  EnergyClock(timing::Clock& clock, const JoulesRead& joules) : clock_(clock), joules_(joules) {}

  // Forgets what was counted: warm-up ends here.
  void Restart() { joules_used_ = seconds_ = 0; }
  // Joules over seconds of all chunks since; nullopt if one of them could not be read, or if they were so little that
  // the steps of the counter, a millisecond, are much of them.
  std::optional<double> Watts() const;

  void BeginChunk(std::size_t marks) override;
  void Mark() override { clock_.Mark(); }
  std::span<const double> EndChunk() override;
  double HostSeconds() override { return clock_.HostSeconds(); }
  double ProcessCpuSeconds() override { return clock_.ProcessCpuSeconds(); }
  double FloorSeconds() override { return clock_.FloorSeconds(); }
  std::size_t MaxMarks() const override { return clock_.MaxMarks(); }
  std::size_t MaxStepMarks() const override { return clock_.MaxStepMarks(); }
  void WhileBusy(const std::function<void()>& look) override { clock_.WhileBusy(look); }
  double SecondsWaitedIn(const std::function<void()>& step) override { return clock_.SecondsWaitedIn(step); }
  double EnqueueSeconds(double host_seconds) const override { return clock_.EnqueueSeconds(host_seconds); }

 private:
  std::optional<double> Read() const { return joules_ ? joules_() : std::nullopt; }

  timing::Clock& clock_;
  const JoulesRead& joules_;
  std::optional<double> before_;
  std::optional<double> joules_used_ = 0;
  double seconds_ = 0;
};

}  // namespace roofbench
