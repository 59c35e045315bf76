// SPDX-License-Identifier: Apache-2.0
// The collectives over Gloo, and decoders that ranks divide, with ranks that are threads of this process: right on
// every rank, and a fault of one rank is found by its own check.

#include <c10/core/AutogradState.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/device/cpu_device.h"
#include "lib/models/training/parallel.h"
#include "lib/ranks/device_group.h"
#include "lib/ranks/group.h"
#include "lib/suite/check.h"
#include "lib/suite/inputs.h"
#include "tests/benchmarks/every_case.h"
#include "tests/device/accelerator/accelerator_gpu.h"
#include "tests/ranks/fake_backend.h"
#include "tests/ranks/forwarding_group.h"
#include "tests/ranks/in_threads.h"

namespace roofbench {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using SharedGroup = std::shared_ptr<ranks::Group>;

// Runs `body` as each rank of a group.
void AsRanks(int size, const std::function<void(const SharedGroup&)>& body) {
  ranks::InGroup(size, [&](ranks::Group& group) { body(SharedGroup(SharedGroup(), &group)); });
}

// The small cases of all collectives for so many ranks.
std::vector<PlannedCase> Cases(int ranks, const std::vector<std::string>& dtypes, const char* impl = "gloo") {
  std::vector<PlannedCase> cases;
  for (const char* family : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"}) {
    const bool has_part = FamilyNamed(family).Points(Suite::kQuick)[0].Has("in_place");
    for (const std::string& dtype : dtypes) {
      // An element for each of 2, 3 and 4 ranks, and several of the stretches that the data repeats.
      for (const char* bytes : {"48", "786432"}) {
        for (const char* in_place : {"no", "yes"}) {
          AxisValues values = {{"impl", impl}, {"ranks", absl::StrCat(ranks)}, {"dtype", dtype}, {"bytes", bytes}};
          if (has_part) values.emplace_back("in_place", in_place);
          cases.push_back(CaseAt(family, values));
          if (!has_part) break;
        }
      }
    }
  }
  return cases;
}

absl::Status StatusOf(const PlannedCase& planned, const SharedGroup& group, int steps, Device& device) {
  Inputs inputs(device, 0, planned.name);
  inputs.SetGroup(group);
  const absl::StatusOr<Case> built = planned.family->BuildAt(planned.point, inputs);
  if (!built.ok()) return built.status();
  for (int step = 0; step < steps; ++step) RunOnce(*built);
  return CheckCase(*built);
}

absl::Status StatusOf(const PlannedCase& planned, const SharedGroup& group, int steps) {
  CpuDevice device(1);
  return StatusOf(planned, group, steps, device);
}

void ExpectRight(const std::vector<PlannedCase>& cases, const SharedGroup& group, int steps) {
  for (const PlannedCase& planned : cases) {
    const absl::Status status = StatusOf(planned, group, steps);
    EXPECT_TRUE(status.ok()) << planned.name << " on rank " << group->rank() << ": " << status;
  }
}

template <typename Parameter>
class OverGloo : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (const absl::Status built = ranks::GlooIsBuilt(); !built.ok()) GTEST_SKIP() << built;
  }
};

class Collectives : public OverGloo<int> {};

TEST_P(Collectives, AreRightOnEveryRank) {
  AsRanks(GetParam(), [](const SharedGroup& group) {
    ExpectRight(Cases(group->size(), {"fp32", "bf16", "fp16", "int8"}), group, 2);
  });
}

// A rank that leaves out its own term of each sum.
class WithoutOwnTerm : public ranks::ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  void AllReduce(at::Tensor& tensor) override {
    const at::Tensor own = tensor.clone();
    ForwardingGroup::AllReduce(tensor);
    tensor.sub_(own);
  }
};

// One that also puts parts in another order, or keeps what it had.
class FaultyGroup : public WithoutOwnTerm {
 public:
  using WithoutOwnTerm::WithoutOwnTerm;
  void AllGather(at::Tensor& output, const at::Tensor& input) override {
    ForwardingGroup::AllGather(output, input);
    Rotate(output, input.numel());
  }
  void ReduceScatter(at::Tensor& output, const at::Tensor& input) override {
    const at::Tensor own = input.narrow(0, rank() * output.numel(), output.numel()).clone();
    ForwardingGroup::ReduceScatter(output, input);
    output.sub_(own);
  }
  void Broadcast(at::Tensor& tensor, int root) override {
    at::Tensor lost = tensor.clone();
    ForwardingGroup::Broadcast(lost, root);
  }
  void AllToAll(at::Tensor& output, const at::Tensor& input) override {
    ForwardingGroup::AllToAll(output, input);
    Rotate(output, input.numel() / size());
  }
  void SendReceive(const at::Tensor& output, int to, at::Tensor& input, int from) override {
    ForwardingGroup::SendReceive(output, to, input, from);
    input.copy_(output);
  }

 private:
  static void Rotate(at::Tensor& output, int64_t part) { output.copy_(output.roll(part, 0).clone()); }
};

TEST_P(Collectives, AFaultOfOneRankIsFoundThere) {
  AsRanks(GetParam(), [](const SharedGroup& group) {
    const bool is_faulty = group->rank() == group->size() - 1;
    const std::vector<PlannedCase> cases = Cases(group->size(), {"fp32", "bf16", "int8"});
    if (!is_faulty) return ExpectRight(cases, group, 1);
    const SharedGroup faulty = std::make_shared<FaultyGroup>(group);
    for (const PlannedCase& planned : cases) {
      const absl::Status status = StatusOf(planned, faulty, 1);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << planned.name << ": " << status;
    }
  });
}

// With tensors of another device and the group that ranks with GPUs have. A backend that exchanges nothing is found.
TEST_P(Collectives, OfDevicesAreRightOnEveryRank) {
  timing::FakeMachine machine;
  AcceleratorGpu* gpu = nullptr;
  const std::unique_ptr<GpuDevice> device = MakeAcceleratorDevice(machine, gpu);
  std::mutex one_at_a_time;
  AsRanks(GetParam(), [&](const SharedGroup& host) {
    std::unique_lock turn(one_at_a_time);
    const auto on_device = [&](c10::intrusive_ptr<c10d::Backend> backend) {
      return SharedGroup(ranks::OverBackend(std::make_unique<ranks::ForwardingGroup>(host), std::move(backend),
                                            device->torch_device()));
    };
    const SharedGroup group = on_device(c10::make_intrusive<ranks::ThroughHost>(host, turn));
    const SharedGroup idle = on_device(c10::make_intrusive<ranks::RecordingBackend>(host->rank(), host->size()));
    for (const PlannedCase& planned : Cases(host->size(), {"fp32", "bf16", "int8"}, "nccl")) {
      const absl::Status status = StatusOf(planned, group, 2, *device);
      EXPECT_TRUE(status.ok()) << planned.name << " on rank " << host->rank() << ": " << status;
      // Rank 0 has what it would broadcast.
      const bool has_it = planned.family->name() == "broadcast" && host->rank() == 0;
      EXPECT_EQ(StatusOf(planned, idle, 1, *device).ok(), has_it) << planned.name << " on rank " << host->rank();
    }
  });
}

// A host that waits for other ranks while they have their turn.
class WaitingHost final : public ranks::ForwardingGroup {
 public:
  WaitingHost(SharedGroup inner, std::unique_lock<std::mutex>& turn) : ForwardingGroup(std::move(inner)), turn_(turn) {}
  void AllGather(at::Tensor& output, const at::Tensor& input) override {
    const ranks::WithoutTurn others(turn_);
    ForwardingGroup::AllGather(output, input);
  }

 private:
  std::unique_lock<std::mutex>& turn_;
};

// The last three timed parts: a step, one without its exchanges, and these alone, each after a meeting on the stream.
void ExpectExchangesRepeated(const std::vector<std::string>& asked) {
  struct Part {
    std::vector<std::string> exchanges = {};
    int waits = 0;  // in another order where the step computes between them
  };
  std::vector<Part> parts(1);
  for (const std::string& what : asked) {
    if (what == "allreduce 1, on the stream") {
      parts.emplace_back();
    } else if (what == ranks::ThroughHost::kWaited) {
      ++parts.back().waits;
    } else {
      parts.back().exchanges.push_back(what);
    }
  }
  ASSERT_GT(parts.size(), 3);
  const Part& step = parts.end()[-3];
  EXPECT_THAT(step.exchanges, Not(IsEmpty()));
  EXPECT_THAT(parts.end()[-2].exchanges, IsEmpty());
  EXPECT_EQ(parts.back().exchanges, step.exchanges);
  EXPECT_EQ(parts.back().waits, step.waits);
}

// A step that ranks with GPUs share. Even its exchanges alone use memory of the device, whose clock times all of it.
class SharedSteps : public OverGloo<models::ParallelRow> {};

TEST_P(SharedSteps, OfDevicesAreRightOnEveryRank) {
  timing::FakeMachine machine;
  AcceleratorGpu* gpu = nullptr;
  const std::unique_ptr<GpuDevice> device = MakeAcceleratorDevice(machine, gpu);
  gpu->operator_seconds = 0.01;  // few rounds are enough then
  const PlannedCase planned = CaseAt("train_step", {{"impl", "eager"},
                                                    {"pass", "step"},
                                                    {"dtype", "fp32"},
                                                    {"d_model", "32"},
                                                    {"d_ff", "64"},
                                                    {"layers", "2"},
                                                    {"heads", "4"},
                                                    {"vocab", "50"},
                                                    {"context", "8"},
                                                    {"batch", "2"},
                                                    {"parallel", GetParam().name},
                                                    {"ranks", "2"}});
  EXPECT_TRUE(planned.family->SupportOf(planned.point, *device).ok());
  EXPECT_THAT(CheckVerified(*planned.family->ImplementationOf(planned.point), planned.point, *device).ToString(),
              HasSubstr("no GPU has run SharedStep"));
  std::mutex one_at_a_time;
  AsRanks(2, [&](const SharedGroup& host) {
    std::unique_lock turn(one_at_a_time);
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);  // the device has one thread for all ranks
    const auto backend = c10::make_intrusive<ranks::ThroughHost>(host, turn);
    Inputs inputs(*device, 0, planned.name);
    inputs.SetGroup(ranks::OverBackend(std::make_unique<WaitingHost>(host, turn), backend, device->torch_device()));
    const absl::StatusOr<Case> built = planned.family->BuildAt(planned.point, inputs);
    ASSERT_TRUE(built.ok()) << built.status();
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(CheckCase(*built), absl::OkStatus()) << "rank " << host->rank();
      RunOnce(*built);
    }
    std::map<std::string, double> figures;
    for (const auto& [name, value] : built->figures) figures[name] = value();
    EXPECT_GT(figures.at("computation_ms"), 1e3 * gpu->operator_seconds * 100) << "of the device";
    EXPECT_GT(figures.at("communication_ms"), 0) << "of the device";
    ExpectExchangesRepeated(backend->asked);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharedSteps, testing::ValuesIn(models::kParallelRows),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(SharedStepsOfDevices, SayWhyTheyAreRefused) {
  timing::FakeMachine machine;
  AcceleratorGpu* gpu = nullptr;
  const std::unique_ptr<GpuDevice> device = MakeAcceleratorDevice(machine, gpu);
  const auto refusal = [&](const char* family, const char* impl) {
    const PlannedCase planned = CaseAt(family, {{"impl", impl}, {"parallel", "tensor"}, {"ranks", "2"}});
    return std::string(planned.family->SupportOf(planned.point, *device).message());
  };
  EXPECT_EQ(refusal("mlp", "eager"), "");
  EXPECT_THAT(refusal("mlp", "graph"), HasSubstr("step, which impl:graph does not support"));
  EXPECT_THAT(refusal("decode", "eager"), HasSubstr("over NCCL only collectives and training run"));
}

// A rank leaves between two steps of those collectives in which each waits for it.
TEST_P(Collectives, OfDevicesEndWithLostContactWhenARankLeaves) {
  timing::FakeMachine machine;
  AcceleratorGpu* gpu = nullptr;
  const std::unique_ptr<GpuDevice> device = MakeAcceleratorDevice(machine, gpu);
  for (const char* family : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}) {
    const AxisValues values = {{"impl", "nccl"}, {"ranks", absl::StrCat(GetParam())}, {"bytes", "786432"}};
    const PlannedCase planned = CaseAt(family, values);
    const auto boards = ranks::OpenBoards(GetParam());
    ranks::Meeting met(GetParam());
    std::mutex one_at_a_time;
    ranks::InThreads(boards.size(), [&](std::size_t rank) {
      const SharedGroup host = ranks::MakeGloo(*boards[rank], "test", std::chrono::hours(1), /*local=*/true).value();
      met.Wait();
      std::unique_lock turn(one_at_a_time);
      Inputs inputs(*device, 0, planned.name);
      inputs.SetGroup(ranks::OverBackend(std::make_unique<ranks::ForwardingGroup>(host),
                                         c10::make_intrusive<ranks::ThroughHost>(host, turn), device->torch_device()));
      const absl::StatusOr<Case> built = planned.family->BuildAt(planned.point, inputs);
      ASSERT_TRUE(built.ok()) << built.status();
      RunOnce(*built);
      if (rank == 1) return;
      // The rank that notices first leaves as well, which ends the wait of the others.
      EXPECT_THROW(RunOnce(*built), ranks::ContactLost) << planned.name << " on rank " << rank;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(2, 3, 4));

// Decoders that ranks divide, of which the program checks each rank against one process.
class DividedDecoders : public OverGloo<const char*> {
 protected:
  static std::vector<PlannedCase> Cases(int ranks, const std::vector<const char*>& precisions,
                                        const char* kv_cache = "default") {
    std::vector<PlannedCase> cases;
    for (const char* impl : {"eager", "native"}) {
      for (const char* model : {"tiny_llama", "tiny_mixtral"}) {
        for (const char* precision : precisions) {
          cases.push_back(CaseAt(GetParam(), {{"impl", impl},
                                              {"model", model},
                                              {"precision", precision},
                                              {"group", "32"},
                                              {"kv_cache", kv_cache},
                                              {std::string_view(GetParam()) == "decode" ? "depth" : "prompt", "6"},
                                              {"parallel", "tensor"},
                                              {"ranks", absl::StrCat(ranks)}}));
        }
      }
    }
    return cases;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, DividedDecoders, testing::Values("decode", "prefill"));

TEST_P(DividedDecoders, AreRightOnEveryRank) {
  for (const int size : {1, 2}) {
    AsRanks(size, [](const SharedGroup& group) {
      ExpectRight(Cases(group->size(), {"fp32", "bf16", "int8", "int4", "llm_int8"}), group, 1);
      ExpectRight(Cases(group->size(), {"fp32", "bf16"}, "int8"), group, 1);
    });
  }
}

TEST_P(DividedDecoders, AFaultOfOneRankIsFoundOnAll) {
  AsRanks(2, [](const SharedGroup& group) {
    const SharedGroup own = group->rank() == 1 ? std::make_shared<WithoutOwnTerm>(group) : group;
    for (const PlannedCase& planned : Cases(group->size(), {"fp32", "bf16", "int4"})) {
      // The others compute with its wrong activations.
      EXPECT_THROW(StatusOf(planned, own, 1), c10::Error) << planned.name;
    }
  });
}

TEST(CollectivesOfOneRank, NeedTheRanksOfTheirName) {
  const absl::Status status = StatusOf(CaseAt("all_reduce", {{"ranks", "2"}, {"bytes", "48"}}), ranks::MakeAlone(), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("2 ranks, and this run has 1"));
}

TEST(CollectivesOfOneRank, RunOnTheirBackendsDeviceAndUnverifiedOnesOnDemand) {
  timing::FakeMachine machine;
  AcceleratorGpu* gpu = nullptr;
  const std::unique_ptr<GpuDevice> device = MakeAcceleratorDevice(machine, gpu);
  const CpuDevice cpu(1);
  const auto refusal = [](const char* impl, const Device& on) {
    const PlannedCase planned = CaseAt("all_reduce", {{"impl", impl}, {"ranks", "2"}});
    return std::string(planned.family->SupportOf(planned.point, on).message());
  };
  EXPECT_THAT(refusal("nccl", cpu), HasSubstr("impl:nccl runs on GPUs alone"));
  EXPECT_THAT(refusal("gloo", *device), HasSubstr("impl:gloo runs on processors alone"));
  const PlannedCase planned = CaseAt("all_reduce", {{"impl", "nccl"}, {"ranks", "2"}});
  const absl::Status verified = CheckVerified(*planned.family->ImplementationOf(planned.point), planned.point, *device);
  EXPECT_THAT(verified.message(), HasSubstr("no GPU has run NcclGroup yet"));
}

TEST(CollectivesOfOneRank, PartsAreEqualAndElementsWhole) {
  const CpuDevice device(1);
  const auto support = [&](const char* family, const char* bytes) {
    const PlannedCase planned = CaseAt(family, {{"ranks", "4"}, {"dtype", "bf16"}, {"bytes", bytes}});
    return planned.family->SupportOf(planned.point, device);
  };
  EXPECT_THAT(support("all_gather", "20").message(), HasSubstr("a multiple of 8, for equal parts"));
  EXPECT_THAT(support("all_to_all", "20").message(), HasSubstr("a multiple of 8, for equal parts"));
  EXPECT_TRUE(support("all_reduce", "20").ok());
  EXPECT_THAT(support("all_reduce", "21").message(), HasSubstr("a multiple of 2, for whole elements"));
}

// Stands in for one of 32 ranks, whose sums bf16 has to round: it adds up the arrays of `counted` ranks.
class ManyRanks : public FaultyGroup {
 public:
  explicit ManyRanks(int counted) : FaultyGroup(ranks::MakeAlone()), counted_(counted) {}
  int rank() const override { return 0; }
  int size() const override { return 32; }
  void AllReduce(at::Tensor& tensor) override {
    const at::Tensor one = tensor.clone();
    for (int rank = 1; rank < counted_; ++rank) tensor.add_(one * (rank + 1));
  }

 private:
  const int counted_;
};

TEST(CollectivesOfOneRank, RoundedSumsAreNearEnough) {
  const PlannedCase planned = CaseAt("all_reduce", {{"ranks", "32"}, {"dtype", "bf16"}, {"bytes", "4096"}});
  const auto status = [&](int counted) { return StatusOf(planned, std::make_shared<ManyRanks>(counted), 1); };
  EXPECT_TRUE(status(32).ok()) << status(32);
  EXPECT_EQ(status(28).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace roofbench
