// SPDX-License-Identifier: Apache-2.0
#include "lib/run/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/fake_device.h"

namespace roofbench {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Doctor, LoadAndUnsteadyMemoryAreToldWithARemedy) {
  const auto quiet = MeasuredDisturbances(0.01, {40e9, 41e9, 40.5e9, 40e9, 41e9});
  ASSERT_EQ(quiet.size(), 2);
  EXPECT_THAT(quiet[0].remedy, IsEmpty());
  EXPECT_THAT(quiet[1].remedy, IsEmpty());
  const auto loud = MeasuredDisturbances(0.25, {40e9, 60e9, 40e9, 60e9, 40e9, 60e9});
  EXPECT_EQ(loud[0].value, "25.0 %");
  EXPECT_THAT(loud[0].remedy, HasSubstr("--wait_quiet"));
  EXPECT_THAT(loud[1].value, HasSubstr("40.0 GB/s to 60.0 GB/s"));
  EXPECT_THAT(loud[1].remedy, HasSubstr("--metric=roof"));
}

TEST(Doctor, TheReportSaysHowToMendEach) {
  const std::string text = Report({{"turbo", "on", "echo 1 (root)"}, {"numa_nodes", "0", ""}});
  EXPECT_THAT(text, testing::AllOf(HasSubstr("turbo              on\n"), HasSubstr("-> echo 1 (root)\n"),
                                   HasSubstr("1 of 2 disturb measurements.")));
  EXPECT_THAT(Report({{"numa_nodes", "0", ""}}), HasSubstr("Nothing that disturbs"));
}

TEST(Doctor, AProcessorHasNoDriverToAsk) {
  const FakeDevice device;
  EXPECT_THAT(GpuDisturbances(device), IsEmpty());
}

}  // namespace
}  // namespace roofbench
