// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/nvml.h"

#include <dlfcn.h>

#include <array>
#include <string_view>
#include <utility>

namespace roofbench::hardware {
namespace {

// Declared as in the documentation of the NVML API (all return an nvmlReturn_t, 0 for success).
using Status = int;
using Handle = void*;
struct ViolationTime {
  uint64_t reference_us;
  uint64_t violation_ns;
};

// A field's value, whose type is that of the field.
struct FieldValue {
  unsigned field = 0;
  unsigned scope = 0;
  int64_t timestamp = 0;
  int64_t latency = 0;
  int type = 0;
  Status status = 0;
  unsigned value = 0;  // of eight bytes, whose meaning is that of the type
  unsigned value_end = 0;
};
struct Process {
  unsigned id;
  uint64_t bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

constexpr unsigned kPowerInstant = 186;
constexpr int kTypeUnsigned = 1;
constexpr unsigned kMostProcesses = 128;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kPolicyPower = 0;
constexpr int kPolicyThermal = 1;
constexpr unsigned kVersionLength = 80;

constexpr uint64_t kThermalReasons = kNvmlSoftwareThermal | kNvmlHardwareThermal;
constexpr uint64_t kPowerReasons = kNvmlSoftwarePowerCap | kNvmlPowerBrake;

struct ReasonName {
  uint64_t bit;
  std::string_view name;
};
constexpr std::array<ReasonName, 9> kReasonNames = {{{kNvmlIdle, "idle"},
                                                     {kNvmlSetClocks, "set_clocks"},
                                                     {kNvmlSoftwarePowerCap, "power_cap"},
                                                     {kNvmlHardwareSlowdown, "hw_slowdown"},
                                                     {kNvmlSyncBoost, "sync_boost"},
                                                     {kNvmlSoftwareThermal, "sw_thermal"},
                                                     {kNvmlHardwareThermal, "hw_thermal"},
                                                     {kNvmlPowerBrake, "power_brake"},
                                                     {kNvmlDisplayClocks, "display_clocks"}}};

}  // namespace

bool IsThermal(const NvmlReading& reading) { return (reading.reasons.value_or(0) & kThermalReasons) != 0; }
bool IsPowerCapped(const NvmlReading& reading) { return (reading.reasons.value_or(0) & kPowerReasons) != 0; }

std::string DescribeReasons(uint64_t reasons) {
  std::string text;
  for (const auto& [bit, name] : kReasonNames) {
    if ((reasons & bit) == 0) continue;
    if (!text.empty()) text += ',';
    text += name;
    reasons &= ~bit;
  }
  if (reasons != 0) text += text.empty() ? "unknown" : ",unknown";
  return text.empty() ? "none" : text;
}

struct Nvml::Library {
  explicit Library(void* opened) : handle(opened) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (initialized && shutdown != nullptr) shutdown();
    dlclose(handle);
  }

  // A function of the library, as the type that it is assigned to; nullptr where the library lacks it.
  struct Symbol {
    void* address;
    template <typename Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };
  Symbol Find(const char* name, const char* older_name = nullptr) const {
    void* const address = dlsym(handle, name);
    return {address == nullptr && older_name != nullptr ? dlsym(handle, older_name) : address};
  }

  // The value that a function of the device writes to its last argument; nullopt if it is missing or fails.
  template <typename Value, typename Function, typename... Arguments>
  std::optional<Value> Ask(Function* function, Arguments... arguments) const {
    Value value{};
    if (function == nullptr || function(device, arguments..., &value) != 0) return std::nullopt;
    return value;
  }

  // The same for a number, converted to our unit.
  template <typename Function, typename... Arguments>
  std::optional<double> AskScaled(double scale, Function* function, Arguments... arguments) const {
    const std::optional<unsigned> number = Ask<unsigned>(function, arguments...);
    return number ? std::optional(scale * *number) : std::nullopt;
  }

  // The power at this moment. The plain query is the mean of a second since Ampere, and a GPU before it has no field.
  std::optional<double> Watts() const {
    FieldValue power{.field = kPowerInstant};
    if (field_values != nullptr && field_values(device, 1, &power) == 0 && power.status == 0 &&
        power.type == kTypeUnsigned) {
      return 1e-3 * power.value;
    }
    return AskScaled(1e-3, power_usage);
  }

  // The current one of two modes: now, and after the next start.
  template <typename Function>
  std::optional<bool> Mode(Function* function) const {
    unsigned now = 0;
    unsigned next = 0;
    if (function == nullptr || function(device, &now, &next) != 0) return std::nullopt;
    return now != 0;
  }

  std::optional<double> Violation(int policy) const {
    const std::optional<ViolationTime> time = Ask<ViolationTime>(violation_status, policy);
    return time ? std::optional(1e-9 * static_cast<double>(time->violation_ns)) : std::nullopt;
  }

  std::string DriverVersion() const {
    std::array<char, kVersionLength> text{};
    if (driver_version == nullptr || driver_version(text.data(), kVersionLength) != 0) return "unknown";
    text.back() = '\0';
    return text.data();
  }

  std::optional<int> Processes() const {
    std::array<Process, kMostProcesses> found{};
    unsigned count = kMostProcesses;
    if (processes == nullptr || processes(device, &count, found.data()) != 0) return std::nullopt;
    return static_cast<int>(count);
  }

  void* const handle;
  bool initialized = false;
  Handle device = nullptr;

  Status (*init)() = Find("nvmlInit_v2");
  Status (*by_pci_bus_id)(const char*, Handle*) = Find("nvmlDeviceGetHandleByPciBusId_v2");
  // Any of the following may be missing.
  Status (*shutdown)() = Find("nvmlShutdown");
  const char* (*error_string)(Status) = Find("nvmlErrorString");
  Status (*driver_version)(char*, unsigned) = Find("nvmlSystemGetDriverVersion");
  Status (*clock_info)(Handle, int, unsigned*) = Find("nvmlDeviceGetClockInfo");                    // MHz
  Status (*max_clock_info)(Handle, int, unsigned*) = Find("nvmlDeviceGetMaxClockInfo");             // MHz
  Status (*chosen_clock)(Handle, int, unsigned*) = Find("nvmlDeviceGetApplicationsClock");          // MHz
  Status (*default_clock)(Handle, int, unsigned*) = Find("nvmlDeviceGetDefaultApplicationsClock");  // MHz
  Status (*field_values)(Handle, int, FieldValue*) = Find("nvmlDeviceGetFieldValues");
  Status (*power_usage)(Handle, unsigned*) = Find("nvmlDeviceGetPowerUsage");          // mW
  Status (*power_limit)(Handle, unsigned*) = Find("nvmlDeviceGetEnforcedPowerLimit");  // mW
  // Renamed in driver 535; newer drivers keep the older name for some time.
  Status (*reasons)(Handle, uint64_t*) = Find("nvmlDeviceGetCurrentClocksEventReasons",
                                              "nvmlDeviceGetCurrentClocksThrottleReasons");
  Status (*violation_status)(Handle, int, ViolationTime*) = Find("nvmlDeviceGetViolationStatus");
  // mJ since the driver was loaded.
  Status (*total_energy)(Handle, uint64_t*) = Find("nvmlDeviceGetTotalEnergyConsumption");
  Status (*persistence)(Handle, int*) = Find("nvmlDeviceGetPersistenceMode");
  Status (*ecc_mode)(Handle, unsigned*, unsigned*) = Find("nvmlDeviceGetEccMode");
  Status (*mig_mode)(Handle, unsigned*, unsigned*) = Find("nvmlDeviceGetMigMode");
  Status (*processes)(Handle, unsigned*, Process*) = Find("nvmlDeviceGetComputeRunningProcesses_v3");
};

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() = default;

std::unique_ptr<Nvml> Nvml::Open(const std::string& pci_bus_id, std::string* why, const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = dlerror();
    *why = error == nullptr ? library + " cannot be opened" : error;
    return nullptr;
  }
  auto opened = std::make_unique<Library>(handle);
  Library& nvml = *opened;
  if (nvml.init == nullptr || nvml.by_pci_bus_id == nullptr) {
    *why = library + " lacks nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2";
    return nullptr;
  }
  const auto failed = [&](const char* what, Status status) {
    *why = std::string(what) + ": " +
           (nvml.error_string != nullptr ? nvml.error_string(status) : "error " + std::to_string(status));
    return nullptr;
  };
  if (const Status status = nvml.init(); status != 0) return failed("nvmlInit_v2", status);
  nvml.initialized = true;
  if (const Status status = nvml.by_pci_bus_id(pci_bus_id.c_str(), &nvml.device); status != 0) {
    return failed("nvmlDeviceGetHandleByPciBusId_v2", status);
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(opened)));
}

NvmlReading Nvml::Read() const {
  const Library& nvml = *library_;
  return {.sm_hertz = nvml.AskScaled(1e6, nvml.clock_info, kClockSm),
          .memory_hertz = nvml.AskScaled(1e6, nvml.clock_info, kClockMemory),
          .watts = nvml.Watts(),
          .reasons = nvml.Ask<uint64_t>(nvml.reasons),
          .thermal_seconds = nvml.Violation(kPolicyThermal),
          .power_cap_seconds = nvml.Violation(kPolicyPower)};
}

NvmlFacts Nvml::Facts() const {
  const Library& nvml = *library_;
  const std::optional<int> persistence = nvml.Ask<int>(nvml.persistence);
  return {.driver_version = nvml.DriverVersion(),
          .power_limit_watts = nvml.AskScaled(1e-3, nvml.power_limit),
          .max_sm_hertz = nvml.AskScaled(1e6, nvml.max_clock_info, kClockSm),
          .max_memory_hertz = nvml.AskScaled(1e6, nvml.max_clock_info, kClockMemory),
          .chosen_sm_hertz = nvml.AskScaled(1e6, nvml.chosen_clock, kClockSm),
          .default_sm_hertz = nvml.AskScaled(1e6, nvml.default_clock, kClockSm),
          .is_persistent = persistence ? std::optional(*persistence != 0) : std::nullopt,
          .corrects_errors = nvml.Mode(nvml.ecc_mode),
          .is_partitioned = nvml.Mode(nvml.mig_mode),
          .processes = nvml.Processes()};
}

std::optional<double> Nvml::Joules() const {
  const std::optional<uint64_t> millijoules = library_->Ask<uint64_t>(library_->total_energy);
  return millijoules ? std::optional(1e-3 * static_cast<double>(*millijoules)) : std::nullopt;
}

}  // namespace roofbench::hardware
