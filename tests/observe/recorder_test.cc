// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/recorder.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/observe/profile/tables.h"
#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

using libkineto::ActivityType;
using torch::autograd::profiler::KinetoEvent;
using torch::profiler::impl::EventType;
using torch::profiler::impl::ExtraFields;
using torch::profiler::impl::Result;

// Metadata as libkineto/src/CuptiActivity.cpp writes it.
constexpr char kKernel[] = R"json(
      "queued": 0, "device": 0, "context": 1,
      "stream": 7, "correlation": 901,
      "registers per thread": 40,
      "shared memory": 8192,
      "blocks per SM": 0.0606,
      "warps per SM": 0.242,
      "grid": [4, 2, 1],
      "block": [128, 1, 1],
      "est. achieved occupancy %": 6)json";
constexpr char kCopy[] = R"json(
      "device": 0, "context": 1,
      "stream": 7, "correlation": 902,
      "bytes": 4096, "memory bandwidth (GB/s)": "N/A")json";

std::shared_ptr<Result> Record(const char* name, ActivityType type, int64_t start, const char* metadata,
                               const std::shared_ptr<Result>& launcher = nullptr, uint64_t number = 0) {
  ExtraFields<EventType::Kineto> fields;
  fields.name_ = name;
  fields.duration_ns_ = 50;
  fields.correlation_id_ = number;
  fields.activity_type_ = type;
  fields.linked_activity_ = launcher;
  fields.metadata_json_ = metadata;
  return Result::create(start, uint64_t{1}, torch::profiler::impl::kineto::DeviceAndResource{0, 7}, std::move(fields));
}

std::optional<ProfiledEvent> Read(const std::shared_ptr<Result>& result) {
  return ReadKinetoEvent(KinetoEvent(result, /*verbose=*/false));
}

ProfiledEvent KernelOf(const char* metadata) {
  const auto read = Read(Record("gemm", ActivityType::CONCURRENT_KERNEL, 100, metadata));
  EXPECT_TRUE(read.has_value());
  return read.value_or(ProfiledEvent{});
}

TEST(KinetoEvent, AKernelIsReadWithItsLaunch) {
  const ProfiledEvent kernel = KernelOf(kKernel);
  EXPECT_EQ(kernel.kind, EventKind::kDeviceKernel);
  EXPECT_EQ(kernel.name, "gemm");
  EXPECT_EQ(kernel.launch, "grid 4x2x1 block 128x1x1");
  EXPECT_EQ(kernel.thread, 7) << "the stream, not the thread of the host";
  EXPECT_EQ(kernel.start_ns, 100);
  EXPECT_EQ(kernel.end_ns, 150);
}

TEST(KinetoEvent, IncompleteMetadataHasNoLaunch) {
  for (const char* metadata : {kCopy, "", "\"grid\": 4", "\"grid\": [4, 2", "}{"}) {
    EXPECT_EQ(KernelOf(metadata).launch, "") << metadata;
  }
  EXPECT_EQ(KernelOf("\"block\": [64, 1, 1]").launch, "block 64x1x1");
}

TEST(KinetoEvent, ReadsFiveActivityTypes) {
  const auto kind_of = [](ActivityType type) {
    const auto read = Read(Record("x", type, 0, ""));
    return read ? std::optional(read->kind) : std::nullopt;
  };
  EXPECT_EQ(kind_of(ActivityType::CPU_OP), EventKind::kOperator);
  EXPECT_EQ(kind_of(ActivityType::USER_ANNOTATION), EventKind::kRange);
  for (const ActivityType type :
       {ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET, ActivityType::CONCURRENT_KERNEL}) {
    EXPECT_EQ(kind_of(type), EventKind::kDeviceKernel);
  }
  EXPECT_EQ(kind_of(ActivityType::CUDA_RUNTIME), std::nullopt) << "a host call would count twice";
  EXPECT_EQ(kind_of(ActivityType::GPU_USER_ANNOTATION), std::nullopt) << "repeats a range";
}

std::shared_ptr<Result> Operator(const char* name, uint64_t correlation, int64_t start) {
  torch::profiler::impl::TorchOpBasicFields basic;
  basic.sequence_number_ = -1;
  basic.name_ = name;
  const int64_t end = start + 10;
  return Result::create(start, uint64_t{1}, torch::profiler::impl::kineto::DeviceAndResource{0, 1},
                        ExtraFields<EventType::TorchOp>(std::move(basic), correlation, end, {}, {}, {}, {}, {}, {}, {},
                                                        {}, false, nullptr));
}

// CUPTI numbers launches, LibTorch numbers operators: here each kernel's own number is that of the other operator.
TEST(KinetoEvent, AKernelBelongsToTheOperatorThatLaunchedIt) {
  const std::shared_ptr<Result> step = Record("step", ActivityType::USER_ANNOTATION, 0, "");
  const std::shared_ptr<Result> mm = Operator("aten::mm", 11, 5);
  const std::shared_ptr<Result> add = Operator("aten::add", 12, 20);
  const std::shared_ptr<Result> results[] = {
      step,
      mm,
      add,
      Record("gemm", ActivityType::CONCURRENT_KERNEL, 1000, R"("correlation": 12, "grid": [4, 1, 1])", mm, 12),
      Record("elementwise", ActivityType::CONCURRENT_KERNEL, 1050, R"("correlation": 11, "grid": [9, 1, 1])", add, 11),
      Record("elementwise", ActivityType::CONCURRENT_KERNEL, 1100, R"("correlation": 11, "grid": [9, 1, 1])", add, 11),
      Record("Memset", ActivityType::GPU_MEMSET, 1200, R"("correlation": 13, "bytes": 8)")};
  std::vector<ProfiledEvent> events;
  for (const auto& result : results) events.push_back(Read(result).value());
  const ProfileTables tables = MakeTables(events, {});
  std::map<std::string, double> device;
  for (const auto& row : tables.operators) device[row.name] = row.self_device;
  EXPECT_NEAR(device["aten::mm"], 50e-9, 1e-15);
  EXPECT_NEAR(device["aten::add"], 100e-9, 1e-15);
  EXPECT_NEAR(tables.device, 200e-9, 1e-15) << "includes the last one, which has no launcher";
  std::map<std::string, std::string> launches;
  for (const auto& row : tables.kernels) launches[row.name] = row.launch;
  EXPECT_EQ(launches["gemm"], "grid 4x1x1");
  EXPECT_EQ(launches["elementwise"], "grid 9x1x1");
}

using Clock = std::chrono::steady_clock;

constexpr auto kWork = std::chrono::milliseconds(2);

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

void Work() {
  const Clock::time_point start = Clock::now();
  while (Clock::now() - start < kWork) {
  }
}

void Operator() {
  at::RecordFunction function(at::RecordScope::FUNCTION);
  if (function.isActive()) function.before("test::operator");
  Work();
}

TEST(OperatorClock, CountsOperatorsAndOurKernelsOnly) {
  const OperatorClock clock;
  {
    const Range part("block", 3);
    Work();
  }
  EXPECT_EQ(clock.seconds(), 0);
  Operator();
  const double one = clock.seconds();
  EXPECT_GE(one, Seconds(kWork));
  {
    const Range kernel("roofbench::gelu");
    Work();
  }
  EXPECT_GE(clock.seconds(), one + Seconds(kWork));
}

TEST(OperatorClock, CountsNestedOperatorsOnce) {
  const Clock::time_point start = Clock::now();
  const OperatorClock clock;
  Clock::duration inside;
  {
    const Range kernel("roofbench::attention");
    const Clock::time_point begin = Clock::now();
    Operator();
    Operator();
    inside = Clock::now() - begin;
  }
  const double counted = clock.seconds();
  EXPECT_GE(counted, Seconds(inside));
  EXPECT_LE(counted, Seconds(Clock::now() - start));
}

TEST(OperatorClock, StartsAtZero) {
  Operator();
  {
    const OperatorClock before;
    Operator();
  }
  Operator();
  const OperatorClock clock;
  EXPECT_EQ(clock.seconds(), 0);
}

}  // namespace
}  // namespace roofbench::observe
