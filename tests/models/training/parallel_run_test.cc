// SPDX-License-Identifier: Apache-2.0
// Ranks that share a training step, as threads: their parameters after five steps are those of one process, and a fault
// of any of them is seen.

#include "lib/models/training/parallel_run.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/aten/random.h"
#include "lib/timing/clock.h"
#include "tests/ranks/forwarding_group.h"
#include "tests/ranks/in_threads.h"

namespace roofbench::models {
namespace {

using SharedGroup = std::shared_ptr<ranks::Group>;

constexpr workload::Transformer kShape{.d_model = 32, .d_ff = 64, .layers = 2, .heads = 4, .vocab = 50};
constexpr int64_t kContext = 8;
constexpr int64_t kBatch = 4;  // of all ranks

ParallelRun RunOf(const ParallelRow& row, SharedGroup group, const LayerFunctions& layers = EagerLayers()) {
  at::Generator generator = NewGenerator(at::kCPU, 7);
  const at::Tensor tokens = at::randint(50, {kBatch, kContext}, generator, at::kLong);
  const at::Tensor targets = at::randint(50, {kBatch, kContext}, generator, at::kLong);
  return {std::move(group),
          ParallelTransformer{kShape, {.layers = &layers}, false, tokens, targets},
          [&](at::IntArrayRef shape, double deviation) {
            const at::Tensor parameter =
                deviation > 0 ? at::randn(shape, generator, at::kFloat).mul_(deviation) : at::ones(shape);
            return parameter.requires_grad_(true);
          },
          {.kind = row.kind,
           .bucket_bytes = 10'000,
           .make_optimizer = MakeFusedAdamW,
           .settings = {.learning_rate = 1e-4, .epsilon = 1e-6}}};
}

// The largest difference of any parameter, and that of any gradient in units of the largest one of its tensor.
struct Difference {
  double parameters = 0;
  double gradients = 0;
};

Difference Compare(const std::vector<at::Tensor>& result, const std::vector<at::Tensor>& reference) {
  Difference difference;
  EXPECT_EQ(result.size(), reference.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double off = result[i].sub(reference[i]).abs().max().item<double>();
    if (i < result.size() / 2) {
      difference.parameters = std::max(difference.parameters, off);
    } else {
      difference.gradients = std::max(difference.gradients, off / reference[i].abs().max().item<double>());
    }
  }
  return difference;
}

Difference Check(ParallelRun& run) {
  const std::vector<at::Tensor> result = run.Result();
  return Compare(result, run.Reference());
}

void AsRanks(int size, const std::function<void(const SharedGroup&)>& body) {
  ranks::InGroup(size, [&](ranks::Group& group) { body(SharedGroup(SharedGroup(), &group)); });
}

class ParallelTraining : public testing::TestWithParam<ParallelRow> {
 protected:
  void SetUp() override {
    if (!ranks::GlooIsBuilt().ok()) GTEST_SKIP() << ranks::GlooIsBuilt();
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, ParallelTraining, testing::ValuesIn(kParallelRows),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(ParallelTraining, EqualsOneProcess) {
  for (const int size : {2, 4}) {
    AsRanks(size, [](const SharedGroup& group) {
      ParallelRun run = RunOf(GetParam(), group);
      for (int round = 0; round < 2; ++round) {
        const Difference difference = Check(run);
        EXPECT_LT(difference.parameters, 1e-6) << "rank " << group->rank() << " of " << group->size();
        EXPECT_LT(difference.gradients, 1e-5) << "rank " << group->rank() << " of " << group->size();
        run.Step([](ParallelPhase) {});
      }
    });
  }
}

// A group whose collectives do what a faulty step would.
class FaultyGroup final : public ranks::ForwardingGroup {
 public:
  enum Fault { kNone, kMissedParameter, kNotDivided, kBeforeAccumulation, kStaleGather };

  FaultyGroup(SharedGroup inner, Fault fault) : ForwardingGroup(std::move(inner)), fault_(fault) {}
  void AllReduce(at::Tensor& tensor) override {
    const bool is_missed = fault_ == kMissedParameter && rank() == 0 && ++reduced_ == 5;
    at::Tensor sum = is_missed ? tensor.clone() : tensor;
    if (fault_ == kBeforeAccumulation) sum.zero_();
    ForwardingGroup::AllReduce(sum);
    if (fault_ == kNotDivided) sum.mul_(size());
  }
  void AllGather(at::Tensor& output, const at::Tensor& input) override {
    const at::Tensor before = output.clone();
    ForwardingGroup::AllGather(output, input);
    // The last ones are those of the check.
    if (fault_ == kStaleGather && ++gathered_ < 5) output.copy_(before);
  }
  void ReduceScatter(at::Tensor& output, const at::Tensor& input) override {
    ForwardingGroup::ReduceScatter(output, input);
    if (fault_ == kNotDivided) output.mul_(size());
  }

 private:
  const Fault fault_;
  int reduced_ = 0;
  int gathered_ = 0;
};

struct Planted {
  const char* kind;
  FaultyGroup::Fault fault;
};

class PlantedFaults : public testing::TestWithParam<Planted> {};

INSTANTIATE_TEST_SUITE_P(
    Faults, PlantedFaults,
    testing::Values(Planted{"ddp_naive", FaultyGroup::kMissedParameter},
                    Planted{"ddp_overlap", FaultyGroup::kMissedParameter},
                    Planted{"tensor", FaultyGroup::kMissedParameter}, Planted{"ddp_naive", FaultyGroup::kNotDivided},
                    Planted{"ddp_flat", FaultyGroup::kNotDivided}, Planted{"zero1", FaultyGroup::kNotDivided},
                    Planted{"fsdp", FaultyGroup::kNotDivided}, Planted{"ddp_overlap", FaultyGroup::kBeforeAccumulation},
                    Planted{"ddp_bucketed", FaultyGroup::kBeforeAccumulation},
                    Planted{"zero1", FaultyGroup::kStaleGather}));

TEST_P(PlantedFaults, AreSeen) {
  if (!ranks::GlooIsBuilt().ok()) GTEST_SKIP() << ranks::GlooIsBuilt();
  const auto* const row = std::ranges::find_if(
      kParallelRows, [](const ParallelRow& one) { return std::string_view(GetParam().kind) == one.name; });
  std::atomic<int> seen = 0;
  AsRanks(2, [&](const SharedGroup& group) {
    ParallelRun run = RunOf(*row, std::make_shared<FaultyGroup>(group, GetParam().fault));
    const Difference difference = Check(run);
    if (difference.parameters > 1e-6 || difference.gradients > 1e-5) ++seen;
  });
  EXPECT_GT(seen, 0);
}

// A group of one rank that notes when exchanges begin and end.
class NotingGroup final : public ranks::ForwardingGroup {
 public:
  explicit NotingGroup(std::vector<std::string>& noted) : ForwardingGroup(ranks::MakeAlone()), noted_(noted) {}
  std::unique_ptr<ranks::Work> StartReduceScatter(at::Tensor& output, at::Tensor& input) override {
    EXPECT_EQ(output.data_ptr(), input.data_ptr()) << "in place, which takes no further memory";
    return Begin("scatter");
  }
  std::unique_ptr<ranks::Work> StartAllGather(at::Tensor&, const at::Tensor&) override { return Begin("gather"); }

 private:
  struct Noted final : ranks::Work {
    Noted(std::vector<std::string>& in, std::string name) : noted(in), end(std::move(name)) {}
    void Wait() override { noted.push_back(end); }
    std::vector<std::string>& noted;
    const std::string end;
  };
  std::unique_ptr<ranks::Work> Begin(const std::string& what) {
    noted_.push_back(what);
    return std::make_unique<Noted>(noted_, what + " ended");
  }

  std::vector<std::string>& noted_;
};

TEST(Zero1, ExchangesABucketWhileBackwardComputesTheNext) {
  std::vector<std::string> noted;
  const std::vector<std::string> phases = {"forward", "backward", "synchronize", "optimizer"};
  const ParallelRow& row = kParallelRows[static_cast<std::size_t>(ParallelKind::kZero1)];
  ParallelRun run = RunOf(row, std::make_shared<NotingGroup>(noted));
  std::size_t buckets = 0;
  run.Step([&](ParallelPhase phase) {
    noted.push_back(phases[static_cast<std::size_t>(phase)]);
    if (phase == ParallelPhase::kForward) buckets = noted.size();
    if (phase == ParallelPhase::kBackward) buckets = noted.size() - buckets - 1;
  });
  EXPECT_GT(buckets, 3);
  std::vector<std::string> expected = {"forward"};
  for (const char* const next : {"scatter", "backward", "scatter ended", "synchronize", "gather", "gather ended"}) {
    const bool is_phase = std::ranges::find(phases, next) != phases.end();
    expected.insert(expected.end(), is_phase ? 1 : buckets, next);
  }
  expected.emplace_back("optimizer");
  EXPECT_EQ(noted, expected);
}

TEST_P(ParallelTraining, TimesItsPartsAndGoesOn) {
  AsRanks(2, [](const SharedGroup& group) {
    ParallelRun run = RunOf(GetParam(), group);
    const ParallelTimes& times = run.MeasuredTimes(/*seconds=*/0.01);
    EXPECT_GT(times.computation, 0);
    EXPECT_GT(times.communication, 0);
    // Their difference may be small compared with both.
    EXPECT_NEAR(times.Overlap() * times.communication, times.communication - times.exposed, 1e-9 * times.communication);
    const double sent = run.SentBytes();
    run.Step([](ParallelPhase) {});
    EXPECT_EQ(run.SentBytes(), sent);
  });
}

// The step, the one without exchanges, and these alone last a fixed time each; what is between them counts for none.
class FixedClock final : public timing::ForwardingClock {
 public:
  FixedClock(timing::Clock& host, const std::array<double, 3>& seconds) : ForwardingClock(host), seconds_(seconds) {}
  void BeginChunk(std::size_t) override { marks_.clear(); }
  void Mark() override {
    const std::size_t mark = marks_.size();
    const double since = mark % 2 == 0 ? 100 : seconds_.at(mark / 2);
    marks_.push_back(mark == 0 ? 0 : marks_.back() + since);
  }
  std::span<const double> EndChunk() override { return marks_; }

 private:
  const std::array<double, 3> seconds_;
  std::vector<double> marks_;
};

TEST(TimesOfParallelSteps, AreThoseOfTheSlowestRank) {
  if (!ranks::GlooIsBuilt().ok()) GTEST_SKIP() << ranks::GlooIsBuilt();
  AsRanks(2, [](const SharedGroup& group) {
    timing::CpuClock host;
    FixedClock clock(host, group->rank() == 0 ? std::array{8.0, 5.0, 4.0} : std::array{9.0, 3.0, 6.0});
    Traffic traffic(*group);
    const ParallelTimes times = MeasureTimes(
        traffic, clock, [] {}, /*seconds=*/1);
    EXPECT_EQ(times.computation, 5);
    EXPECT_EQ(times.communication, 6);
    EXPECT_EQ(times.exposed, 4);
  });
}

TEST(BytesOfParallelSteps, AreUnknownWhereTheBackendChoosesItsAlgorithms) {
  class OverNccl final : public ranks::ForwardingGroup {
   public:
    OverNccl() : ForwardingGroup(ranks::MakeAlone()) {}
    std::string backend() const override { return "nccl"; }
  };
  OverNccl group;
  EXPECT_TRUE(std::isnan(Traffic(group).SentBytes()));
}

}  // namespace
}  // namespace roofbench::models
