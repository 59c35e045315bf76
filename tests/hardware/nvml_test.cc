// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include "test_paths.h"

namespace roofbench::hardware {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr char kBus[] = "0000:65:00.0";

class NvmlTest : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("FAKE_NVML_NO_DRIVER");
    unsetenv("FAKE_NVML_REASONS");
    unsetenv("FAKE_NVML_NO_FIELDS");
    unsetenv("FAKE_NVML_NO_POWER");
    unsetenv("FAKE_NVML_PROCESSES");
    unsetenv("FAKE_NVML_SET_CLOCK");
  }
  std::unique_ptr<Nvml> Open(const std::string& bus = kBus) { return Nvml::Open(bus, &why_, ROOFBENCH_FAKE_NVML); }
  std::string why_;
};

TEST_F(NvmlTest, ReadsInSiUnits) {
  const auto nvml = Open();
  ASSERT_NE(nvml, nullptr) << why_;
  const NvmlReading reading = nvml->Read();
  EXPECT_THAT(reading.sm_hertz, Optional(1755e6));
  EXPECT_THAT(reading.memory_hertz, Optional(3201e6));
  EXPECT_THAT(reading.watts, Optional(testing::DoubleNear(698.5, 1e-9)));
  EXPECT_THAT(reading.thermal_seconds, Optional(testing::DoubleNear(0.04, 1e-12)));
  EXPECT_THAT(reading.power_cap_seconds, Optional(testing::DoubleNear(2.5, 1e-12)));
  EXPECT_THAT(nvml->Joules(), Optional(testing::DoubleNear(1234.5, 1e-9)));
}

// Before Ampere the driver has no such field, and the plain query is of the moment.
TEST_F(NvmlTest, ReadsThePowerOfTheMomentWhereTheGpuReportsIt) {
  setenv("FAKE_NVML_NO_FIELDS", "1", 1);
  const auto nvml = Open();
  ASSERT_NE(nvml, nullptr) << why_;
  EXPECT_THAT(nvml->Read().watts, Optional(512.0));
  setenv("FAKE_NVML_NO_POWER", "1", 1);
  EXPECT_EQ(nvml->Read().watts, std::nullopt) << "unreported values are not guessed";
}

TEST_F(NvmlTest, KnowsWhatElseSetsTheSpeed) {
  const auto nvml = Open();
  ASSERT_NE(nvml, nullptr) << why_;
  setenv("FAKE_NVML_SET_CLOCK", "1", 1);
  const NvmlFacts facts = nvml->Facts();
  EXPECT_EQ(facts.driver_version, "580.65.06");
  EXPECT_THAT(facts.power_limit_watts, Optional(700.0));
  EXPECT_THAT(facts.max_sm_hertz, Optional(1980e6));
  EXPECT_THAT(facts.max_memory_hertz, Optional(3201e6));
  EXPECT_THAT(facts.chosen_sm_hertz, Optional(1410e6));
  EXPECT_THAT(facts.default_sm_hertz, Optional(1980e6));
  EXPECT_THAT(facts.is_persistent, Optional(true));
  EXPECT_THAT(facts.corrects_errors, Optional(true)) << "now, not after the next start";
  EXPECT_THAT(facts.is_partitioned, Optional(false));
  EXPECT_THAT(facts.processes, Optional(1));
  setenv("FAKE_NVML_PROCESSES", "1000", 1);
  EXPECT_EQ(nvml->Facts().processes, std::nullopt) << "the list does not fit";
}

TEST_F(NvmlTest, DistinguishesHeatFromPower) {
  const auto nvml = Open();
  ASSERT_NE(nvml, nullptr) << why_;
  EXPECT_TRUE(IsPowerCapped(nvml->Read()));
  EXPECT_FALSE(IsThermal(nvml->Read()));
  setenv("FAKE_NVML_REASONS", "48", 1);
  EXPECT_TRUE(IsThermal(nvml->Read()));
  EXPECT_FALSE(IsPowerCapped(nvml->Read()));
  setenv("FAKE_NVML_REASONS", "1", 1);
  EXPECT_FALSE(IsThermal(nvml->Read()) || IsPowerCapped(nvml->Read()));
}

TEST_F(NvmlTest, NamesReasons) {
  EXPECT_EQ(DescribeReasons(0), "none");
  EXPECT_EQ(DescribeReasons(kNvmlIdle), "idle");
  EXPECT_EQ(DescribeReasons(kNvmlSoftwarePowerCap | kNvmlHardwareThermal), "power_cap,hw_thermal");
  EXPECT_EQ(DescribeReasons(uint64_t{1} << 40), "unknown");
  EXPECT_EQ(DescribeReasons(kNvmlIdle | uint64_t{1} << 40), "idle,unknown");
}

TEST_F(NvmlTest, SaysWhyItCannotBeOpened) {
  EXPECT_EQ(Nvml::Open(kBus, &why_, "libno-such-library.so.1"), nullptr);
  EXPECT_THAT(why_, HasSubstr("libno-such-library.so.1"));
  EXPECT_EQ(Nvml::Open(kBus, &why_, "libm.so.6"), nullptr);
  EXPECT_THAT(why_, HasSubstr("lacks nvmlInit_v2"));
  EXPECT_EQ(Open("0000:00:00.0"), nullptr);
  EXPECT_THAT(why_, HasSubstr("Not Found"));
  setenv("FAKE_NVML_NO_DRIVER", "1", 1);
  EXPECT_EQ(Open(), nullptr);
  EXPECT_THAT(why_, HasSubstr("Driver Not Loaded"));
}

TEST_F(NvmlTest, CanBeOpenedAgain) {
  for (int i = 0; i < 3; ++i) EXPECT_NE(Open(), nullptr) << why_;
}

}  // namespace
}  // namespace roofbench::hardware
