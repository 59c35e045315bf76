// SPDX-License-Identifier: Apache-2.0
#include "lib/run/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "lib/run/roof_stage.h"
#include "lib/run/run_context.h"
#include "test_paths.h"
#include "tests/run/simple_case.h"

namespace roofbench {
namespace {

using hardware::Disturbance;
using testing::_;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

testing::Matcher<Disturbance> Fact(const std::string& fact, const testing::Matcher<std::string>& value,
                                   const testing::Matcher<std::string>& remedy) {
  return AllOf(Field("fact", &Disturbance::fact, fact), Field("value", &Disturbance::value, value),
               Field("remedy", &Disturbance::remedy, remedy));
}

TEST(Doctor, LoadAndUnsteadyMemoryAreReportedWithARemedy) {
  const auto quiet = MeasuredDisturbances(0.01, {.memory_rates = {40e9, 41e9, 40.5e9, 40e9, 41e9}});
  ASSERT_EQ(quiet.size(), 2);
  EXPECT_THAT(quiet[0].remedy, IsEmpty());
  EXPECT_THAT(quiet[1].remedy, IsEmpty());
  const auto loud = MeasuredDisturbances(0.25, {.memory_rates = {40e9, 60e9, 40e9, 60e9, 40e9, 60e9}});
  EXPECT_EQ(loud[0].value, "25.0 %");
  EXPECT_THAT(loud[0].remedy, HasSubstr("--wait_quiet"));
  EXPECT_THAT(loud[1].value, HasSubstr("40.0 GB/s to 60.0 GB/s"));
  EXPECT_THAT(loud[1].remedy, HasSubstr("--metric=roof"));
}

TEST(Doctor, ProcessorsThatChangePlacesAreNamed) {
  const auto still = MeasuredDisturbances(0.01, {.handovers = {60e-9, 70e-9, 55e-9}});
  EXPECT_EQ(still[1].value, "55.0 ns to 70.0 ns between threads, over ten seconds");
  EXPECT_THAT(still[1].remedy, IsEmpty());
  EXPECT_THAT(MeasuredDisturbances(0.01, {.handovers = {60e-9, 265e-9}})[1].remedy, HasSubstr("change places"));
}

TEST(Doctor, OnlyLoadThatDisturbsIsWorthAWarning) {
  EXPECT_EQ(BusyText(0.01), "");
  EXPECT_THAT(BusyText(0.25), AllOf(HasSubstr("other programs use 25 % of the processors"), HasSubstr("--wait_quiet")));
}

TEST(Doctor, TheReportHasARemedyForEach) {
  const std::string text = Report({{"turbo", "on", "echo 1 (root)"}, {"numa_nodes", "0", ""}});
  EXPECT_THAT(text, AllOf(HasSubstr("turbo              on\n"), HasSubstr("-> echo 1 (root)\n"),
                          HasSubstr("1 of 2 disturb measurements.")));
  EXPECT_THAT(Report({{"numa_nodes", "0", ""}}), HasSubstr("Nothing that disturbs"));
}

TEST(RunContext, HasTheMemorySpeedAndTheLoadOfOtherPrograms) {
  BusyDevice device;
  const RunFacts before = RunContext({}, device);
  EXPECT_THAT(before, Contains(Pair("other_load", "unknown")));
  EXPECT_THAT(before, Contains(Pair("memory_speed", "unknown")));
  device.readings.push_back({.roof = "bf16", .variant = "only", .rate = 1e12, .best = true});
  RunOptions options;
  options.roofs = RoofSource::kMeasure;
  const RoofOrigin roofs = PrepareRoofs(options, hardware::StreamsAnd({workload::Dtype::kBf16}), device);
  EXPECT_TRUE(device.calibrated.dtypes[workload::Index(workload::Dtype::kBf16)]);
  EXPECT_FALSE(device.calibrated.dtypes[workload::Index(workload::Dtype::kFp32)]);
  EXPECT_NEAR(roofs.other_load.value(), 1.8 / 4, 1e-9);
  device.memory_speed = {.slow = 36e9, .fast = 41e9};
  const RunFacts after = RunContext({}, device, roofs);
  EXPECT_THAT(after, Contains(Pair("other_load", "45.0 % while the roofs were measured")));
  EXPECT_THAT(after, Contains(Pair("memory_speed", "36.0 GB/s to 41.0 GB/s while the roofs were measured")));
}

class DoctorOnAGpu : public testing::Test {
 protected:
  ~DoctorOnAGpu() override {
    unsetenv("FAKE_NVML_NOT_PERSISTENT");
    unsetenv("FAKE_NVML_REASONS");
    unsetenv("FAKE_NVML_SET_CLOCK");
    unsetenv("FAKE_NVML_MIG");
    unsetenv("FAKE_NVML_PROCESSES");
  }

  std::vector<Disturbance> Found() const { return GpuDisturbances(device_, ROOFBENCH_FAKE_NVML); }

  FakeGpuMachine device_;
};

TEST_F(DoctorOnAGpu, TheDriverReportsDisturbancesWithRemedies) {
  setenv("FAKE_NVML_NOT_PERSISTENT", "1", 1);
  setenv("FAKE_NVML_SET_CLOCK", "1", 1);
  setenv("FAKE_NVML_MIG", "1", 1);
  setenv("FAKE_NVML_PROCESSES", "3", 1);
  EXPECT_THAT(Found(), ElementsAre(Fact("gpu_persistence", "off", HasSubstr("nvidia-smi -pm 1")),
                                   Fact("gpu_clock", "1755 of 1980 MHz", IsEmpty()),
                                   Fact("gpu_memory_clock", "3201 of 3201 MHz", IsEmpty()),
                                   Fact("gpu_chosen_clock", "1410 of 1980 MHz", IsEmpty()),
                                   Fact("gpu_ecc", "on", IsEmpty()), Fact("gpu_mig", "on", HasSubstr("-mig 0")),
                                   Fact("gpu_other_processes", "2", HasSubstr("nvidia-smi")),
                                   Fact("gpu_clock_reasons", "power_cap", HasSubstr("nvidia-smi -lgc"))));
  setenv("FAKE_NVML_REASONS", "40", 1);
  EXPECT_THAT(Found().back(), Fact("gpu_clock_reasons", "hw_thermal", HasSubstr("too hot")));
}

TEST_F(DoctorOnAGpu, AGpuAtRestInItsUsualStateIsNotDisturbed) {
  setenv("FAKE_NVML_REASONS", "1", 1);
  for (const Disturbance& one : Found()) EXPECT_EQ(one.remedy, "") << one.fact;
  EXPECT_THAT(Found(), Contains(Fact("gpu_chosen_clock", "default", _)));
  EXPECT_THAT(Found(), Contains(Fact("gpu_mig", "off", _)));
  EXPECT_THAT(Found(), Contains(Fact("gpu_other_processes", "0", _)));
}

TEST_F(DoctorOnAGpu, ADriverThatDoesNotAnswerIsNotAFault) {
  device_.bus_id = "0000:01:00.0";
  EXPECT_THAT(Found(), ElementsAre(Fact("gpu_driver", HasSubstr("does not answer"), IsEmpty())));
  EXPECT_THAT(GpuDisturbances(FakeDevice(), ROOFBENCH_FAKE_NVML), IsEmpty()) << "a processor has no driver";
}

}  // namespace
}  // namespace roofbench
