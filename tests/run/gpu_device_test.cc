// SPDX-License-Identifier: Apache-2.0
// Every part of the CUDA path that works without a GPU: the device, its clock and roofs in a session, graphs, NVML.

#include "lib/device/gpu_device.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "lib/aten/precision_scopes.h"
#include "lib/run/doctor.h"
#include "lib/run/session.h"
#include "lib/suite/steps/gpu_step.h"
#include "lib/workload/operators/elementwise.h"
#include "test_paths.h"
#include "tests/device/fake_gpu.h"
#include "tests/run/simple_case.h"

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;
using workload::Dtype;

enum Phase { kFirst, kSecond };

class GpuDeviceTest : public testing::Test {
 protected:
  GpuDeviceTest() {
    options_.reference = "a100-sxm4-40gb";
    options_.sampling.roof_share = 0;
  }
  ~GpuDeviceTest() override { unsetenv("FAKE_NVML_REASONS"); }

  // Tensors lie on the CPU, so that this runs anywhere.
  std::unique_ptr<GpuDevice> Make(bool nvml = false) {
    GpuParts parts;
    auto gpu = std::make_unique<FakeGpu>(machine_);
    gpu_ = gpu.get();
    if (l2_bytes_ > 0) gpu->fake_facts.l2_bytes = l2_bytes_;
    gpu->fake_facts.memory_bytes = std::max(gpu->fake_facts.memory_bytes, 25 * l2_bytes_);
    parts.gpu = std::move(gpu);
    parts.nvml_missing = "no driver";
    if (nvml) {
      parts.nvml = hardware::Nvml::Open("0000:65:00.0", &parts.nvml_missing, ROOFBENCH_FAKE_NVML);
      EXPECT_NE(parts.nvml, nullptr) << parts.nvml_missing;
    }
    parts.torch_device = torch_device_;
    parts.host_seconds = [this] { return machine_.host; };
    return std::make_unique<GpuDevice>(std::move(parts));
  }

  // A step of ten launches in two phases: three and seven of them.
  PlainFamily TwoPhases(double launch_seconds) {
    return PlainFamily("two", "two phases")
        .Axis({.name = "impl", .choices = {"eager", "graph"}, .default_value = "eager"})
        .DefaultCache("warm")
        .Grid(Suite::kQuick, {{"impl", {"eager", "graph"}}})
        .Cost([](const Point&) { return workload::CopyStream{1 << 20}.Cost(); })
        .Build([this, launch_seconds](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
          const auto step = [this, launch_seconds](timing::PhaseMarker& marker) {
            ++eager_steps_;
            for (int i = 0; i < 3; ++i) machine_.Launch(launch_seconds);
            marker.End(kFirst);
            for (int i = 0; i < 7; ++i) machine_.Launch(launch_seconds);
            marker.End(kSecond);
          };
          Case built = CaseOf(in.Randn({16}), step, {"first", "second"});
          if (at.Text("impl") == "graph") return Graphed(std::move(built), in.device());
          return built;
        });
  }

  Outcome Run(Device& device, const Family& family, const std::string& impl = "eager") {
    return Session(options_, device, {PlannedOf(family, {{"impl", impl}})}, nullptr).Run(0);
  }

  static std::map<std::string, double> Counters(const Outcome& outcome) {
    return {outcome.counters.begin(), outcome.counters.end()};
  }

  timing::FakeMachine machine_;
  FakeGpu* gpu_ = nullptr;
  at::Device torch_device_ = at::kCPU;
  double l2_bytes_ = 0;  // of the next device; 0: FakeGpu's
  RunOptions options_;
  int eager_steps_ = 0;
};

TEST_F(GpuDeviceTest, IsRecognizedByName) {
  const auto device = Make();
  ASSERT_NE(device->datasheet(), nullptr);
  EXPECT_EQ(device->datasheet()->name, "h200");
  EXPECT_EQ(device->kind(), "cuda");
  EXPECT_THAT(device->Context(), testing::AllOf(testing::Contains(Pair("device_arch", "sm_90")),
                                                testing::Contains(Pair("gpu_datasheet", "h200")),
                                                testing::Contains(Pair("nvml", HasSubstr("no driver")))));
}

TEST_F(GpuDeviceTest, TheContextHasTheFindingsOfTheDoctor) {
  const auto device = Make(/*nvml=*/true);
  const auto context = device->Context();
  const auto found = GpuDisturbances(*device, ROOFBENCH_FAKE_NVML);
  ASSERT_GE(found.size(), 3);
  for (const auto& one : found) EXPECT_THAT(context, testing::Contains(Pair(one.fact, one.value)));
  EXPECT_THAT(context, testing::Contains(Pair("gpu_persistence", "on")));
  EXPECT_THAT(context, testing::Contains(Pair("gpu_idle_watts", "698.5")));
}

// A product that fails leaves its roof unknown. The reason must not be lost with the machine.
TEST_F(GpuDeviceTest, TheContextSaysWhyAProductHasNoRate) {
  torch_device_ = at::Device(at::kXLA);  // which this LibTorch lacks
  const auto device = Make();
  EXPECT_THAT(device->Context(), testing::Contains(Pair("gpu_probe_fault", "none")));
  device->Calibrate(hardware::StreamsAnd({Dtype::kInt8, Dtype::kFp16}));
  EXPECT_EQ(device->MeasuredPeaks().flops_per_second[Index(Dtype::kInt8)], 0);
  EXPECT_THAT(device->Context(),
              testing::Contains(Pair("gpu_probe_fault", testing::AllOf(HasSubstr("int8 gemm 4096: "), HasSubstr("XLA"),
                                                                       HasSubstr("; fp16 gemm 8192 transposed: ")))));
}

// The pace of launches is the time of a short row, and not that of its kernels.
TEST_F(GpuDeviceTest, AShortGraphHasTheTimeOfItsKernels) {
  machine_.enqueue_seconds = 1e-6;
  machine_.graph_seconds = 2e-6;
  const auto device = Make();
  const auto one = [&](double seconds) {
    PlainFamily family("one", "a launch");
    family.Axis({.name = "impl", .choices = {"eager", "graph"}, .default_value = "eager"})
        .DefaultCache("warm")
        .Grid(Suite::kQuick, {{"impl", {"eager", "graph"}}})
        .Cost([](const Point&) { return workload::CopyStream{1 << 20}.Cost(); })
        .Build([this, seconds](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
          Case built = CaseOf(in.Randn({16}), [this, seconds](timing::PhaseMarker&) { machine_.Launch(seconds); });
          if (at.Text("impl") == "graph") return Graphed(std::move(built), in.device());
          return built;
        });
    return family;
  };
  const Outcome graph = Run(*device, one(1e-6), "graph");
  ASSERT_EQ(graph.verdict, Verdict::kMeasured) << graph.reason;
  EXPECT_NEAR(graph.summary.median, 3e-6, 0.5e-6);
  EXPECT_NEAR(Counters(graph).at("kernel_ms"), 1e-3, 1e-9);
  EXPECT_THAT(Counters(Run(*device, one(200e-6), "graph")), Not(testing::Contains(Key("kernel_ms"))));
  // Without a graph, of steps that were launched while the device slept; it also says how fast its clock was.
  machine_.enqueue_seconds = 5e-6;
  machine_.hertz = 1.5e9;
  const Outcome eager = Run(*device, one(1e-6), "eager");
  EXPECT_NEAR(eager.summary.median, 5e-6, 0.5e-6);
  EXPECT_NEAR(Counters(eager).at("kernel_ms"), 1e-3, 1e-9);
  EXPECT_EQ(Counters(eager).at("launch_bound"), 1);
  EXPECT_EQ(Counters(eager).at("clock_mhz"), 1500);
  EXPECT_EQ(Counters(eager).at("repeated_chunks"), 0);
  EXPECT_THAT(Counters(Run(*device, one(200e-6), "eager")), Not(testing::Contains(Key("kernel_ms"))));
}

TEST_F(GpuDeviceTest, SupportsWhatItsCapabilityHas) {
  const auto device = Make();
  for (const Dtype dtype : workload::kDtypes) EXPECT_TRUE(device->Supports(dtype).ok());
  gpu_->fake_facts.compute_major = 7;
  EXPECT_TRUE(device->Supports(Dtype::kFp16).ok());
  EXPECT_THAT(std::string(device->Supports(Dtype::kBf16).message()), HasSubstr("compute capability 7.0"));
  EXPECT_FALSE(device->Supports(Dtype::kInt8).ok()) << "7.5 has it";
}

TEST_F(GpuDeviceTest, MeasuresOnTheDevicesClock) {
  const auto device = Make();
  const Outcome outcome = Run(*device, TwoPhases(20e-6));
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  const auto counters = Counters(outcome);
  EXPECT_NEAR(outcome.summary.median, 200e-6, 1e-9);
  EXPECT_NEAR(counters.at("first_ms"), 0.06, 1e-6);
  EXPECT_NEAR(counters.at("second_ms"), 0.14, 1e-6);
  EXPECT_EQ(counters.at("launch_bound"), 0);
  EXPECT_GT(counters.at("mem_util"), 0) << "against the datasheet of the H200";
  EXPECT_THAT(counters, Not(testing::Contains(Key("power_capped")))) << "no NVML, no figure";
  EXPECT_EQ(gpu_->emptied, 1) << "the allocator is emptied after a case";
}

TEST_F(GpuDeviceTest, AGraphIsLaunchedOnceAStepAndKeepsItsPhases) {
  const auto device = Make();
  machine_.enqueue_seconds = 5e-6;
  const Outcome eager = Run(*device, TwoPhases(2e-6));
  eager_steps_ = 0;
  const Outcome graph = Run(*device, TwoPhases(2e-6), "graph");
  ASSERT_EQ(graph.verdict, Verdict::kMeasured) << graph.reason;
  EXPECT_LE(eager_steps_, 40) << "the step itself runs to be recorded, alone and in longer graphs, and never again";
  // The eager step waits for the launches of a slow host; the graph is launched at once, so that its phases keep their
  // shares.
  EXPECT_EQ(Counters(eager).at("launch_bound"), 1);
  EXPECT_NEAR(Counters(graph).at("first_ms") / Counters(graph).at("second_ms"), 3.0 / 7.0, 0.1);
}

// Cold cases whose steps say on which copy they run.
class ColdCase : public GpuDeviceTest {
 protected:
  ColdCase() {
    options_.sampling.max_samples = 300;
    options_.sampling.target_ci = -1;
  }

  // `bytes` of operands, read in a launch.
  Outcome RunWith(Device& device, int64_t bytes, double launch_seconds) {
    int copies = 0;
    const Family family = PlainFamily("small", "small operands")
                              .Axis({.name = "n"})
                              .Grid(Suite::kQuick, {{"n", {std::to_string(bytes / 4)}}})
                              .Cost([](const Point&) { return workload::CopyStream{1 << 20}.Cost(); })
                              .Build([&](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
                                return CaseOf(in.Randn({at.Int("n")}), [this, launch_seconds, copy = copies++] {
                                  order_.push_back(copy);
                                  machine_.Launch(launch_seconds);
                                });
                              });
    device.DisplaceCache().IgnoreError();  // checks the streams
    gpu_->fake_streams.enqueued = [this](const hardware::GpuPass& pass) {
      order_.push_back(-static_cast<int64_t>(pass.bytes));
      displaced_ += static_cast<double>(pass.bytes);
      machine_.Launch(static_cast<double>(pass.bytes) / 1e12);
    };
    const Outcome outcome = Session(options_, device, {PlannedOf(family)}, nullptr).Run(0);
    copies_ = copies;
    return outcome;
  }

  // Bytes that other copies and displacements read between a copy's turns: the least after the first displacement, of
  // `bytes` a copy.
  double LeastBetweenTurns(int64_t bytes) const {
    std::map<int64_t, double> last;
    double read = 0;
    double least = 1e18;
    for (auto turn = std::ranges::find_if(order_, [](int64_t one) { return one < 0; }); turn != order_.end(); ++turn) {
      if (*turn < 0) {
        read -= static_cast<double>(*turn);
        continue;
      }
      if (const auto found = last.find(*turn); found != last.end()) least = std::min(least, read - found->second);
      read += static_cast<double>(bytes);
      last[*turn] = read;
    }
    return least;
  }

  double Displacements() const { return displaced_ / (4 * gpu_->fake_facts.l2_bytes); }

  std::vector<int64_t> order_;  // copies, and minus the bytes of displacements
  double displaced_ = 0;
  int copies_ = 0;
};

TEST_F(ColdCase, SmallOperandsAreColdBecauseTheCacheIsDisplaced) {
  const auto device = Make();
  machine_.record_seconds = 0.1e-6;
  machine_.enqueue_seconds = 1e-6;
  const Outcome outcome = RunWith(*device, 256, 2e-6);  // 4,096 copies have 1 MiB, the size of the cache
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_EQ(copies_, 4096);
  EXPECT_GT(outcome.samples.steps_per_sample, 1);
  EXPECT_GT(Displacements(), 0);
  EXPECT_GE(LeastBetweenTurns(256), 4 << 20);
  EXPECT_LE(Displacements(), 2 + static_cast<double>(order_.size()) / 4000) << "the others keep the host's pace";
  EXPECT_NEAR(outcome.summary.median, 2e-6, 0.05e-6) << "without the time of displacements";
  EXPECT_EQ(Counters(outcome).at("launch_bound"), 0);
}

TEST_F(ColdCase, ACopyWithoutOthersIsColdBeforeEachStep) {
  l2_bytes_ = 20 << 20;
  const auto device = Make();
  gpu_->free_bytes = 270e6;  // a quarter holds one copy, and less than the cache four times
  machine_.enqueue_seconds = 3e-6;
  options_.sampling.max_samples = 20;
  const Outcome outcome = RunWith(*device, 40 << 20, 2e-6);
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_EQ(copies_, 1);
  EXPECT_EQ(outcome.samples.steps_per_sample, 1);
  EXPECT_EQ(Counters(outcome).at("launch_bound"), 0) << "the host enqueues while the cache is displaced";
  EXPECT_NEAR(outcome.summary.median, 2e-6, 0.05e-6) << "without the time of displacements";
  EXPECT_GE(Displacements(), 1 + outcome.samples.warmup_steps + std::ssize(outcome.samples.seconds))
      << "for the first step, too, and once when the case was built";
}

TEST_F(ColdCase, CopiesThatFillTheCacheNeedNoDisplacement) {
  const auto device = Make();
  ASSERT_EQ(RunWith(*device, 4 << 10, 2e-6).verdict, Verdict::kMeasured);
  EXPECT_EQ(copies_, 4096);
  EXPECT_EQ(Displacements(), 0);
}

TEST_F(ColdCase, IsSkippedWhereTheCacheCannotBeDisplaced) {
  const auto device = Make();
  gpu_->fake_streams.broken = hardware::StreamKind::kUpdate;
  const Outcome outcome = RunWith(*device, 256, 2e-6);
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, HasSubstr("computes something else"));
}

// As the stages of a large model in LLM.int8() are: more than a chunk of many steps has.
TEST_F(GpuDeviceTest, AStepMayMakeMoreMarksThanAChunk) {
  const auto device = Make();
  const std::size_t marks = device->clock().MaxMarks() + 10;
  const Family family = TwoPhases(0).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    const auto step = [&](timing::PhaseMarker& marker) {
      for (std::size_t i = 0; i < marks; ++i) {
        machine_.Launch(1e-6);
        marker.End(i % 2 == 0 ? kFirst : kSecond);
      }
    };
    return CaseOf(in.Randn({16}), step, {"first", "second"});
  });
  const Outcome outcome = Run(*device, family);
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_NEAR(Counters(outcome).at("first_ms"), 1e-3 * static_cast<double>(marks) / 2, 1e-6);
}

TEST_F(GpuDeviceTest, AnErrorThatStaysMakesItUseless) {
  const auto device = Make();
  gpu_->fault = "unspecified launch failure";
  const Outcome outcome = Run(*device, TwoPhases(20e-6));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reason, HasSubstr("unspecified launch failure"));
  EXPECT_TRUE(device->Health().ok()) << "it was reported, and is over";
  EXPECT_EQ(Run(*device, TwoPhases(20e-6)).verdict, Verdict::kMeasured);
  gpu_->fault = "unspecified launch failure";
  EXPECT_TRUE(device->Health().ok()) << "reported here, and over as well";
  gpu_->fault = "an illegal memory access was encountered";
  gpu_->fault_stays = true;
  EXPECT_EQ(Run(*device, TwoPhases(20e-6)).verdict, Verdict::kFailed);
  EXPECT_THAT(std::string(device->Health().message()), HasSubstr("illegal memory access"));
}

// A failed query of a lost device before the case is a failure of the case, too.
TEST_F(GpuDeviceTest, CasesOnALostDeviceFailOneByOne) {
  const auto device = Make();
  gpu_->fault = "an illegal memory access was encountered";
  gpu_->fault_stays = true;
  gpu_->memory_fault = gpu_->fault;
  const Family family = TwoPhases(20e-6);
  Session session(options_, *device, {PlannedOf(family)}, nullptr);
  for (int repetition = 0; repetition < 2; ++repetition) {
    const Outcome& outcome = session.Run(0);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_THAT(outcome.reason, HasSubstr("illegal memory access"));
  }
}

TEST_F(GpuDeviceTest, AnErrorAfterASkippedCaseIsItsFailure) {
  const auto device = Make();
  gpu_->fault = "an illegal memory access was encountered";
  gpu_->fault_stays = true;
  gpu_->fake_facts.compute_major = 7;
  const Family family = TwoPhases(20e-6).Cost([](const Point&) {
    workload::Operation product;
    product.flops[workload::Index(Dtype::kBf16)] = 1;
    return workload::Cost{.operations = {product}};
  });
  const Outcome outcome = Run(*device, family);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << "the process is lost, and has to end";
  EXPECT_THAT(outcome.reason, HasSubstr("illegal memory access"));
}

TEST_F(GpuDeviceTest, TheMemoryOfAGraphIsItsCases) {
  const auto device = Make();
  const double eager = Counters(Run(*device, TwoPhases(20e-6))).at("peak_mem");
  gpu_->graph_bytes = 3e6;
  EXPECT_EQ(Counters(Run(*device, TwoPhases(20e-6), "graph")).at("peak_mem"), eager + 3e6);
}

TEST_F(GpuDeviceTest, APowerCapIsRecorded) {
  const auto device = Make(/*nvml=*/true);
  const auto counters = Counters(Run(*device, TwoPhases(20e-6)));
  EXPECT_EQ(counters.at("power_capped"), 1);
  EXPECT_EQ(counters.at("throttled"), 0);
  EXPECT_NEAR(counters.at("clock_mhz"), 1755, 1e-9);
  EXPECT_NEAR(counters.at("power_w"), 698.5, 1e-9);
}

// At 300 W. The counter of a GPU moves every tenth of a second: a mean over less, or with probes, is of something else.
TEST_F(GpuDeviceTest, EnergyIsThatOfSecondsWithoutProbes) {
  const auto device = Make();
  device->Calibrate(hardware::StreamsAnd({}));
  options_.joules = [this] { return 300 * machine_.device; };
  options_.sampling.max_time = options_.sampling.max_wall = 100;
  EXPECT_NEAR(Counters(Run(*device, TwoPhases(0.05))).at("energy_j"), 150, 1);
  EXPECT_THAT(Counters(Run(*device, TwoPhases(20e-6))), Not(testing::Contains(Key("energy_j")))) << "short";
  options_.sampling.roof_share = 0.25;
  EXPECT_THAT(Counters(Run(*device, TwoPhases(0.05))), Not(testing::Contains(Key("energy_j"))));
}

TEST_F(GpuDeviceTest, RoofsAreThoseOfItsStreams) {
  const auto device = Make();
  device->Calibrate(hardware::StreamsAnd({}));
  EXPECT_NEAR(device->MeasuredPeaks().read, 4.4e9, 1);
  const RoofGauge gauge = device->Gauge(workload::CopyStream{64 << 20}.Cost(), CacheState::kCold);
  EXPECT_EQ(gauge.name, "memory");
  EXPECT_NEAR(gauge.probe(2e-3), 3.3e9, 1);
  EXPECT_THAT(device->Gauge(workload::CopyStream{1 << 16}.Cost(), CacheState::kWarm).name, HasSubstr("128 KiB"));
}

TEST_F(GpuDeviceTest, ItsStreamsMatchThoseOfTheProcessor) {
  const auto device = Make();
  const at::Tensor words = at::arange(16, at::kLong);
  hardware::GpuStreams& streams = gpu_->streams();
  std::byte* const from = streams.Allocate(128);
  std::byte* const to = streams.Allocate(128);
  streams.Upload(from, std::span(reinterpret_cast<const uint64_t*>(words.data_ptr()), 16));
  std::vector<uint64_t> got(16, 99);
  streams.Upload(to, got);
  for (int i = 0; i < 2; ++i) device->RunStream({hardware::StreamKind::kRead}, to, from, 128);
  streams.Download(got, to);
  EXPECT_EQ(got[0], 120) << "the sum of one read";
  device->RunStream({hardware::StreamKind::kCopy}, to, from, 128);
  streams.Download(got, to);
  EXPECT_EQ(got[15], 15);
  streams.Free(from);
  streams.Free(to);
}

TEST_F(GpuDeviceTest, ALaunchOfAGraphDoesAllThatTheStepDoes) {
  const auto device = Make();
  const at::Tensor loss = at::zeros({4});
  const at::Tensor parameter = at::zeros({4});
  const std::function<void()> write = [&] { loss.fill_(3); };
  const std::function<void()> update = [&] { parameter.add_(1); };
  const std::function<void()> both = [&] {
    write();
    update();
  };
  const auto graphed = [&](const std::function<void()>& work) {
    gpu_->replayed = work;
    Case eager = CaseOf(parameter, both);
    eager.effects = [&] { return StepEffects{.overwritten = {loss}, .updated = {parameter}}; };
    return Graphed(std::move(eager), *device).status();
  };
  EXPECT_TRUE(graphed(both).ok()) << graphed(both);
  EXPECT_THAT(std::string(graphed(write).message()), HasSubstr("of what it updates"));
  EXPECT_THAT(std::string(graphed(update).message()), HasSubstr("result of a launch of the recorded step"));
}

TEST(Graph, IsSkippedOnAProcessor) {
  FakeDevice cpu;
  EXPECT_EQ(SupportsGraph(cpu).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Graphed(Case{.step = [] {}}, cpu).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Fp32Scope, SetsTheSwitchAndPutsItBack) {
  const bool before = at::globalContext().allowTF32CuBLAS();
  {
    const Fp32Scope outer(true);
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
    {
      const Fp32Scope inner(false);
      EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
      EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
    }
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  }
  EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), before);
}

TEST_F(GpuDeviceTest, UnverifiedKernelsAreInNoRunUnlessAskedFor) {
  const auto device = Make();
  FakeDevice cpu;
  const Implementation stream = {.name = "stream", .on_cpu = true, .on_gpu = true, .kernels = {"CopyStream"}};
  const Family family = TwoPhases(1e-6);
  const Point point = PlannedOf(family).point;
  const Implementation eager = {.name = "eager", .on_cpu = true, .on_gpu = true};
  EXPECT_EQ(CheckVerified(stream, point, *device).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(CheckVerified(stream, point, *device).message()), HasSubstr("CopyStream"));
  EXPECT_TRUE(CheckVerified(eager, point, *device).ok());
  EXPECT_TRUE(CheckVerified(stream, point, cpu).ok());
  Implementation graph = eager;
  graph.kernels_at = [](const Point& at) {
    return at.Text("impl") == "graph" ? std::vector<std::string_view>{"GemvRows"} : std::vector<std::string_view>();
  };
  EXPECT_TRUE(CheckVerified(graph, point, *device).ok());
  EXPECT_THAT(std::string(CheckVerified(graph, point.With("impl", "graph"), *device).message()), HasSubstr("GemvRows"));
}

}  // namespace
}  // namespace roofbench
