// SPDX-License-Identifier: Apache-2.0
// A stand-in for libnvidia-ml.so.1: the functions that lib/hardware/nvml.cc calls, with the answers of a GPU that is
// under its power cap. Environment variables of the test change the answers.

#include <cstdlib>
#include <cstring>

extern "C" {

struct FakeViolationTime {
  unsigned long long reference_us;
  unsigned long long violation_ns;
};

int g_device = 0;
int g_initialised = 0;

int nvmlInit_v2() {
  if (std::getenv("FAKE_NVML_NO_DRIVER") != nullptr) return 9;
  ++g_initialised;
  return 0;
}
int nvmlShutdown() {
  --g_initialised;
  return 0;
}
const char* nvmlErrorString(int status) { return status == 9 ? "Driver Not Loaded" : "Not Found"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  if (std::strcmp(id, "0000:65:00.0") != 0) return 6;
  *device = &g_device;
  return 0;
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
  *mhz = type == 1 ? 1980 : 0;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 698'500;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return device == &g_device ? 0 : 2;
}
int nvmlDeviceGetTemperature(void* /*device*/, int /*sensor*/, unsigned* /*celsius*/) { return 3; }  // not supported
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
int nvmlDeviceGetViolationStatus(void* device, int policy, FakeViolationTime* time) {
  time->reference_us = 1'000'000;
  time->violation_ns = policy == 0 ? 2'500'000'000 : 40'000'000;
  return device == &g_device ? 0 : 2;
}
}
