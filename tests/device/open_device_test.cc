// SPDX-License-Identifier: Apache-2.0
// Messages without a GPU, without a driver, or without the CUDA part.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/device/device.h"
#include "lib/device/gpu_device.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool HasDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

std::string Refusal(const std::string& spec) { return std::string(OpenDevice(spec, 1).status().message()); }

TEST(OpenDevice, RefusesWhatIsNoDevice) {
  for (const char* spec : {"tpu", "cuda:", "cuda:-1", "cuda:one", "cuda:1000", "CUDA"}) {
    EXPECT_THAT(Refusal(spec), AllOf(HasSubstr(spec), HasSubstr("auto, cpu, cuda or cuda:N")));
  }
}

TEST(OpenDevice, SaysThatThereIsNoDriver) {
  if (HasDriver()) GTEST_SKIP() << "there is a driver here";
  for (const char* spec : {"cuda", "cuda:3"}) {
    EXPECT_THAT(Refusal(spec), AllOf(HasSubstr(spec), HasSubstr("libcuda.so.1"), HasSubstr("--device=cpu")));
  }
  const auto device = OpenDevice("auto", 1);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->kind(), "cpu");
}

TEST(GpuModule, SaysWhatIsWrongWithTheFile) {
  EXPECT_THAT(std::string(LoadGpuModuleFrom("/no/such/module.so").status().message()), HasSubstr("/no/such/module.so"));
  EXPECT_THAT(std::string(LoadGpuModuleFrom("libm.so.6").status().message()), HasSubstr("is not the CUDA part"));
}

}  // namespace
}  // namespace roofbench
