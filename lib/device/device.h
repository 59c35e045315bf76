// SPDX-License-Identifier: Apache-2.0
// The device that a run measures: its facts, its clock, its memory and its roofs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/hardware/cache_eviction.h"
#include "lib/hardware/conditions/conditions_watch.h"
#include "lib/hardware/datasheet.h"
#include "lib/hardware/roofs/roof_gauge.h"
#include "lib/hardware/roofs/roof_meter.h"
#include "lib/timing/clock.h"
#include "lib/workload/roofline.h"

namespace roofbench {

using hardware::CacheState;
using hardware::Conditions;
using hardware::MeasuredConditions;
using hardware::RoofGauge;

class Gpu;

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string kind() const = 0;  // "cpu" or "cuda"
  virtual std::string name() const = 0;
  virtual at::Device torch_device() const = 0;
  virtual int threads() const = 0;
  // Processors of the host.
  virtual int processors() const = 0;
  // nullptr: the table of datasheets does not know this device.
  virtual const hardware::Datasheet* datasheet() const = 0;
  virtual timing::Clock& clock() = 0;
  // Another clock of the same kind, for work that must not disturb the one above.
  virtual std::unique_ptr<timing::Clock> NewClock() const = 0;
  // Bytes of the last cache level before memory.
  virtual double LastLevelCacheBytes() const = 0;
  virtual double FreeMemoryBytes() const = 0;
  // OK if the hardware has arithmetic in this precision; the error names the missing feature.
  virtual absl::Status Supports(workload::Dtype dtype) const = 0;
  // Facts for the context of the results: key, value.
  virtual std::vector<std::pair<std::string, std::string>> Context() const = 0;
  virtual Conditions ReadConditions() const = 0;
  // Between the threads of a processor (lib/hardware/conditions/handover.h).
  virtual std::optional<double> HandoverSeconds() const { return std::nullopt; }

  // Measures the needed roofs that are not known yet.
  virtual void Calibrate(const hardware::RoofNeeds& needs) = 0;
  // Takes roofs from the readings of an earlier process on this device instead of measuring them.
  virtual void RestoreRoofs(const std::vector<hardware::RoofReading>& /*readings*/) {}
  // The variants tried for each known roof, with their rates.
  virtual std::vector<hardware::RoofReading> RoofReadings() const { return {}; }
  virtual const workload::Peaks& MeasuredPeaks() const = 0;
  // The scatter of the memory rate during calibration.
  virtual hardware::RateRange MemorySpeed() const = 0;
  virtual RoofGauge Gauge(const workload::Cost& cost, CacheState cache) = 0;
  // Runs a stream over `bytes` bytes (a multiple of 64, both pointers 64-byte aligned) of the device's memory. A read
  // leaves the wrapping sum of all 64-bit words in the one at `to`.
  virtual void RunStream(const hardware::StreamWay& way, std::byte* to, const std::byte* from, std::size_t bytes) = 0;

  // Work on the device itself that takes about `seconds` per call, to slow a step down on purpose.
  virtual std::function<void()> ExtraWork(double seconds) = 0;
  // Called after each case, whatever its outcome: frees memory and waits for running work.
  virtual void AfterCase() {}
  // Waits, up to a limit, until a device that throttled for heat has recovered.
  virtual void WaitUntilCool() {}
  // Whether this process can still use the device: Unavailable after an error that stays with the process.
  virtual absl::Status Health() { return absl::OkStatus(); }

  // Whether the device computes in the host's memory: a case then uses this process's own memory, and an overrun ends
  // the process unless a limit turns it into an exception.
  virtual bool SharesHostMemory() const { return true; }
  // Whether work is enqueued ahead of the device: a host that is slower than the device then sets the pace.
  virtual bool EnqueuesAhead() const { return false; }
  // Whether conditions are momentary, so that they must be read while a case runs; otherwise they are counters.
  virtual bool ConditionsAreMomentary() const { return false; }

  // Used to evict the operands of a cold case before each step. nullptr: the device has no instruction for it, and the
  // case rotates over copies of its operands instead.
  virtual hardware::CacheEvictor* evictor() { return nullptr; }
  // Displaces what the last-level cache holds, in the order of the device's other work: for cases of so little memory
  // that their copies would not. The first call takes a while.
  virtual absl::Status DisplaceCache() { return absl::UnimplementedError("this device cannot displace its cache"); }

  // The CUDA side of the device; nullptr on a CPU.
  virtual Gpu* gpu() const { return nullptr; }
};

// Follows the conditions of the device, which must outlive the watch. `other_cpu`: CPU seconds of further processes
// that belong to the case.
hardware::ConditionsWatch WatchConditions(Device& device, std::function<double()> other_cpu = {});

// `spec` is "auto", "cpu", "cuda" or "cuda:N". `threads` 0: LibTorch's default. `local_rank`: among the processes of a
// run on this machine, of which "cuda" and "auto" give each another GPU, if this process sees several. The error lists
// the devices that exist.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& spec, int threads, int local_rank = 0);
// OK if this process sees so many GPUs; the error says how many it sees.
absl::Status SeesGpus(int64_t count);

}  // namespace roofbench
