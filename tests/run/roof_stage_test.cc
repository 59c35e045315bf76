// SPDX-License-Identifier: Apache-2.0
#include "lib/run/roof_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/temp_folder.h"
#include "tests/device/fake_device.h"
#include "tests/run/simple_case.h"
#include "tests/suite/plain_family.h"

namespace roofbench {
namespace {

using hardware::RoofReading;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Each roof that is needed and not known yet gets a reading.
class MeasuringDevice : public FakeDevice {
 public:
  void Calibrate(const hardware::RoofNeeds& needs) override {
    FakeDevice::Calibrate(needs);
    for (const hardware::StreamKind kind : hardware::kStreamKinds) {
      if (needs.streams[Index(kind)]) Measure(std::string(Name(kind)));
    }
    for (const workload::Dtype dtype : workload::kDtypes) {
      if (needs.dtypes[workload::Index(dtype)]) Measure(std::string(workload::Name(dtype)));
    }
    fake_clock.Advance(1);
    conditions.busy_seconds += 1 + others;
  }
  int threads() const override { return thread_count; }

  std::vector<std::string> measured;
  double others = 0;
  int thread_count = 2;

 private:
  void Measure(const std::string& roof) {
    for (const RoofReading& reading : readings) {
      if (reading.roof == roof) return;
    }
    measured.push_back(roof);
    readings.push_back({.roof = roof, .variant = "only", .rate = 1e9, .best = true, .range = {.slow = 1, .fast = 2}});
  }
};

class RoofStageTest : public testing::Test {
 protected:
  RoofStageTest() { setenv("XDG_CACHE_HOME", cache_.c_str(), 1); }
  ~RoofStageTest() override { unsetenv("XDG_CACHE_HOME"); }

  // A case that reads memory and computes in this precision.
  std::pair<std::vector<std::string>, RoofOrigin> Start(workload::Dtype dtype, const RunOptions& options = {}) {
    const Family family = PlainFamily("some", "")
                              .Axis({.name = "n"})
                              .Grid(Suite::kQuick, {{"n", {"1"}}})
                              .Cost([dtype, this](const Point& /*at*/) {
                                const workload::Operation read{.bytes_read = kBytes};
                                return workload::Cost{.operations = {read.WithFlops(dtype, flops_)}};
                              })
                              .Build([](const Point&, Inputs&) -> absl::StatusOr<Case> { return Case{}; });
    MeasuringDevice device;
    device.others = others_;
    device.thread_count = threads_;
    RoofOrigin origin = PrepareRoofs(options, {PlannedOf(family)}, device);
    needed_ = device.calibrated;
    return {device.measured, std::move(origin)};
  }

  const TempFolder folder_;
  const std::string cache_ = folder_ / "cache";
  static constexpr double kBytes = 1e6;
  double flops_ = 1e6;  // 1 us at the roof of the fake device, where the bytes take 1 ms
  hardware::RoofNeeds needed_;
  double others_ = 0;
  int threads_ = 2;
};

TEST_F(RoofStageTest, TheNextStartReusesWhatItNeeds) {
  const auto [first, measured] = Start(workload::Dtype::kFp32);
  EXPECT_THAT(first, ElementsAre("read", "fp32")) << "and no other";
  EXPECT_EQ(measured.text, "measured");
  const auto [second, reused] = Start(workload::Dtype::kFp32);
  EXPECT_THAT(second, IsEmpty());
  EXPECT_THAT(reused.text, StartsWith("measured 0 min before and reused"));
  EXPECT_EQ(reused.other_load, measured.other_load);
  const auto [third, partly] = Start(workload::Dtype::kBf16);
  EXPECT_THAT(third, ElementsAre("bf16"));
  EXPECT_THAT(partly.text, StartsWith("partly measured 0 min before"));
  EXPECT_THAT(Start(workload::Dtype::kBf16).first, IsEmpty());
  EXPECT_THAT(Start(workload::Dtype::kFp32).first, IsEmpty()) << "the first ones are still there";
}

// The probe that confirms a kept stream takes memory and time.
TEST_F(RoofStageTest, KeptStreamsAreProbedOnlyIfARoofDependsOnThem) {
  const std::size_t read = Index(hardware::StreamKind::kRead);
  Start(workload::Dtype::kFp32);
  for (const bool is_compute_bound : {false, true}) {
    flops_ = is_compute_bound ? 1e10 : 1e8;  // 10 ms or 0.1 ms
    const RoofOrigin origin = Start(workload::Dtype::kFp32).second;
    EXPECT_EQ(needed_.streams[read], !is_compute_bound);
    EXPECT_TRUE(needed_.dtypes[workload::Index(workload::Dtype::kFp32)]);
    EXPECT_THAT(origin.text, StartsWith("measured 0 min before and reused"));
  }
  flops_ = 1.5e9;  // 1.5 ms: at half of the kept speed, memory decides
  Start(workload::Dtype::kFp32);
  EXPECT_TRUE(needed_.streams[read]);
  RunOptions options;
  options.roofs = RoofSource::kMeasure;
  flops_ = 1e10;
  Start(workload::Dtype::kFp32, options);
  EXPECT_TRUE(needed_.streams[read]) << "a stream that is not known is measured";
}

TEST_F(RoofStageTest, MeasureMeasuresAgain) {
  Start(workload::Dtype::kFp32);
  RunOptions options;
  options.roofs = RoofSource::kMeasure;
  const auto [measured, origin] = Start(workload::Dtype::kFp32, options);
  EXPECT_THAT(measured, SizeIs(2));
  EXPECT_EQ(origin.text, "measured");
}

TEST_F(RoofStageTest, OffMeasuresNothing) {
  RunOptions options;
  options.sampling.roof_share = 0;
  const auto [measured, origin] = Start(workload::Dtype::kFp32, options);
  EXPECT_THAT(measured, IsEmpty());
  EXPECT_EQ(origin.text, "off");
  EXPECT_EQ(origin.other_load, std::nullopt);
}

TEST_F(RoofStageTest, RoofsOfABusyMachineAreNotKept) {
  others_ = 0.5;
  Start(workload::Dtype::kFp32);
  EXPECT_THAT(Start(workload::Dtype::kFp32).first, SizeIs(2));
}

TEST_F(RoofStageTest, OtherThreadsHaveOtherRoofs) {
  Start(workload::Dtype::kFp32);
  threads_ = 1;
  EXPECT_THAT(Start(workload::Dtype::kFp32).first, SizeIs(2));
}

TEST_F(RoofStageTest, WithoutAPrivateFolderTheyAreMeasured) {
  std::ofstream(cache_) << "a file";
  Start(workload::Dtype::kFp32);
  EXPECT_THAT(Start(workload::Dtype::kFp32).first, SizeIs(2));
}

}  // namespace
}  // namespace roofbench
