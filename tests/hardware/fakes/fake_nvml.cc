// SPDX-License-Identifier: Apache-2.0
// A stand-in for libnvidia-ml.so.1: the functions that lib/hardware/nvml.cc and tools/gpu_checks/nvml_calls.py call,
// with the answers of a GPU that is under its power cap. Environment variables of the test change the answers.

#include <cstdlib>
#include <cstring>

extern "C" {

struct FakeViolationTime {
  unsigned long long reference_us;
  unsigned long long violation_ns;
};

struct FakeFieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  int type;
  int status;
  unsigned long long value;
};

struct FakeProcess {
  unsigned id;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

int g_device = 0;

int nvmlInit_v2() { return std::getenv("FAKE_NVML_NO_DRIVER") != nullptr ? 9 : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int status) { return status == 9 ? "Driver Not Loaded" : "Not Found"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  if (std::strcmp(id, "0000:65:00.0") != 0) return 6;
  *device = &g_device;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &g_device;
  return index == 0 ? 0 : 6;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.65.06", length);
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  if (device != &g_device) return 2;
  *mhz = type == 1 ? 1755 : type == 2 ? 3201 : 0;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) {
  *mhz = type == 1 ? 1980 : type == 2 ? 3201 : 0;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetApplicationsClock(void* device, int type, unsigned* mhz) {
  *mhz = type != 1 ? 0 : std::getenv("FAKE_NVML_SET_CLOCK") != nullptr ? 1410 : 1980;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetDefaultApplicationsClock(void* device, int type, unsigned* mhz) {
  *mhz = type == 1 ? 1980 : 0;
  return device == &g_device ? 0 : 2;
}
// The power at this moment, and the mean of the last second.
int nvmlDeviceGetFieldValues(void* device, int count, FakeFieldValue* values) {
  for (int i = 0; i < count; ++i) {
    values[i].status = values[i].field == 186 && std::getenv("FAKE_NVML_NO_FIELDS") == nullptr ? 0 : 3;
    values[i].type = 1;
    values[i].value = 698'500;
  }
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 512'000;
  if (std::getenv("FAKE_NVML_NO_POWER") != nullptr) return 3;  // not supported
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  const char* given = std::getenv("FAKE_NVML_REASONS");
  *reasons = given == nullptr ? 0x4 : std::strtoull(given, nullptr, 16);
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  *millijoules = 1'234'500;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetPersistenceMode(void* device, int* mode) {
  *mode = std::getenv("FAKE_NVML_NOT_PERSISTENT") == nullptr ? 1 : 0;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetEccMode(void* device, unsigned* now, unsigned* next) {
  *now = 1;
  *next = 0;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* next) {
  *now = std::getenv("FAKE_NVML_MIG") == nullptr ? 0 : 1;
  *next = 1;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, FakeProcess* processes) {
  const char* given = std::getenv("FAKE_NVML_PROCESSES");
  const unsigned running = given == nullptr ? 1 : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  const bool fits = running <= *count;
  *count = running;
  if (!fits) return 7;
  for (unsigned i = 0; i < running; ++i) processes[i].id = 1000 + i;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetViolationStatus(void* device, int policy, FakeViolationTime* time) {
  time->reference_us = 1'000'000;
  time->violation_ns = policy == 0 ? 2'500'000'000 : 40'000'000;
  return device == &g_device ? 0 : 2;
}
}
