// SPDX-License-Identifier: Apache-2.0
// Clocks, power and slowdown reasons of a GPU, from the NVIDIA driver's management library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace roofbench::hardware {

// Bits of NvmlReading::reasons, as nvmlDeviceGetCurrentClocksEventReasons documents them.
enum NvmlReason : uint64_t {
  kNvmlIdle = 0x1,
  kNvmlSetClocks = 0x2,
  kNvmlSoftwarePowerCap = 0x4,
  kNvmlHardwareSlowdown = 0x8,  // heat or power: the next two say which, where the GPU reports it
  kNvmlSyncBoost = 0x10,
  kNvmlSoftwareThermal = 0x20,
  kNvmlHardwareThermal = 0x40,
  kNvmlPowerBrake = 0x80,
  kNvmlDisplayClocks = 0x100,
};

// nullopt: this GPU or driver does not report it.
struct NvmlReading {
  std::optional<double> sm_hertz;
  std::optional<double> memory_hertz;
  std::optional<double> watts;              // at this moment, or of the last second where the GPU reports no more
  std::optional<uint64_t> reasons;          // at this moment
  std::optional<double> thermal_seconds;    // seconds of thermal slowdown since the driver was loaded
  std::optional<double> power_cap_seconds;  // seconds of slowdown for the power limit
};

// How the GPU is set up. nullopt as above.
struct NvmlFacts {
  std::string driver_version;               // "unknown" if it does not report one
  std::optional<double> power_limit_watts;  // the enforced limit
  std::optional<double> max_sm_hertz;
  std::optional<double> max_memory_hertz;
  std::optional<double> chosen_sm_hertz;   // the clock that applications get: set by a user, or the default
  std::optional<double> default_sm_hertz;  // of applications
  std::optional<bool> is_persistent;       // the driver stays loaded between programs
  std::optional<bool> corrects_errors;     // ECC
  std::optional<bool> is_partitioned;      // MIG
  std::optional<int> processes;            // with a context on the GPU, this one included if it has one
};

// Whether the GPU was slowed down for heat or capped by the power limit at the moment of the reading.
bool IsThermal(const NvmlReading& reading);
bool IsPowerCapped(const NvmlReading& reading);

// "idle", "power_cap,hw_thermal", … in the order of the bits; "none" for 0.
std::string DescribeReasons(uint64_t reasons);

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";  // of the driver

// The toolkit has no header of this library, and a machine without a driver does not have the library: it is opened at
// run time, and its few functions are declared in nvml.cc.
class Nvml {
 public:
  // Finds the GPU on the PCI bus by "0000:65:00.0". On failure returns nullptr and the reason in `why`.
  static std::unique_ptr<Nvml> Open(const std::string& pci_bus_id, std::string* why,
                                    const std::string& library = kNvmlLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  NvmlReading Read() const;
  NvmlFacts Facts() const;
  std::optional<double> Joules() const;  // used since the driver was loaded (Volta and later)

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace roofbench::hardware
