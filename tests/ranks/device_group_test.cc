// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/device_group.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/ranks/guarded.h"
#include "tests/ranks/fake_backend.h"
#include "tests/ranks/forwarding_group.h"
#include "tests/ranks/in_threads.h"

namespace roofbench::ranks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kPart = 3;

// A tensor on a device without memory.
at::Tensor OnDevice(int64_t elements) { return at::empty({elements}, at::TensorOptions(at::kMeta)); }

// Counts the calls of rank 1 of 4, and does nothing.
class CountingHost : public ForwardingGroup {
 public:
  explicit CountingHost(std::vector<std::string>& called) : ForwardingGroup(MakeAlone()), called_(called) {}
  int rank() const override { return 1; }
  int size() const override { return 4; }
  void AllReduce(at::Tensor&) override { called_.emplace_back("all-reduce"); }
  void AllGather(at::Tensor&, const at::Tensor&) override { called_.emplace_back("all-gather"); }
  void ReduceScatter(at::Tensor&, const at::Tensor&) override { called_.emplace_back("reduce-scatter"); }
  std::unique_ptr<Work> StartReduceScatter(at::Tensor&, at::Tensor&) override {
    called_.emplace_back("began reduce-scatter");
    return MakeAlone()->StartAllReduce(token_);
  }
  void Broadcast(at::Tensor&, int) override { called_.emplace_back("broadcast"); }
  void AllToAll(at::Tensor&, const at::Tensor&) override { called_.emplace_back("all-to-all"); }
  void Send(const at::Tensor&, int) override { called_.emplace_back("send"); }
  void Receive(at::Tensor&, int) override { called_.emplace_back("receive"); }
  void SendReceive(const at::Tensor&, int, at::Tensor&, int) override { called_.emplace_back("send and receive"); }
  void Barrier() override { called_.emplace_back("barrier"); }

 private:
  std::vector<std::string>& called_;
  at::Tensor token_;
};

class DeviceGroups : public ::testing::Test {
 protected:
  // Every function that takes tensors, on those of `make`.
  void CallAll(at::Tensor (*make)(int64_t elements)) {
    const int64_t all = group_->size() * kPart;
    at::Tensor whole = make(all);
    at::Tensor other = make(all);
    at::Tensor part = make(kPart);
    group_->AllReduce(whole);
    group_->StartAllReduce(whole)->Wait();
    group_->AllGather(whole, part);
    group_->StartAllGather(whole, part)->Wait();
    group_->ReduceScatter(part, whole);
    group_->ReduceScatterInput(part, whole);
    group_->StartReduceScatter(part, whole)->Wait();
    group_->Broadcast(part, 2);
    group_->AllToAll(other, whole);
    group_->Send(part, 0);
    group_->Receive(part, 3);
    group_->SendReceive(part, 2, part, 0);
  }

  std::vector<std::string> host_;
  const c10::intrusive_ptr<RecordingBackend> backend_ = c10::make_intrusive<RecordingBackend>(1, 4);
  std::unique_ptr<Group> group_ = OverBackend(std::make_unique<CountingHost>(host_), backend_, at::kMeta);
};

TEST_F(DeviceGroups, TheDevicesTensorsGoThroughItsBackend) {
  EXPECT_EQ(group_->backend(), "fake");
  CallAll(&OnDevice);
  EXPECT_THAT(
      backend_->asked,
      ElementsAre("allreduce 12, on the stream", "allreduce 12", "allgather 3 to 12, on the stream",
                  "allgather 3 to 12", "reduce_scatter 12 to 3, on the stream", "reduce_scatter 12 to 3, on the stream",
                  "reduce_scatter 12 to 3", "broadcast 3 from 2, on the stream", "alltoall 12 to 12, on the stream",
                  "send 3 to 0", "recv 3 from 3", "(", "recv 3 from 0", "send 3 to 2", ")"));
  EXPECT_THAT(host_, IsEmpty());
}

TEST_F(DeviceGroups, TensorsOfTheHostAndBarriersDoNot) {
  CallAll([](int64_t elements) { return at::empty({elements}); });
  group_->Barrier();
  EXPECT_THAT(host_, ElementsAre("all-reduce", "all-reduce", "all-gather", "all-gather", "reduce-scatter",
                                 "reduce-scatter", "began reduce-scatter", "broadcast", "all-to-all", "send", "receive",
                                 "send and receive", "barrier"));
  EXPECT_THAT(backend_->asked, IsEmpty());
}

TEST_F(DeviceGroups, MeetOnTheStream) {
  group_->Meet();
  EXPECT_THAT(backend_->asked, ElementsAre("allreduce 1, on the stream"));
  EXPECT_THAT(host_, IsEmpty()) << "the host does not wait";
}

TEST_F(DeviceGroups, ALostLinkIsLostContact) {
  backend_->fails = true;
  at::Tensor tensor = OnDevice(kPart);
  try {
    group_->AllReduce(tensor);
    ADD_FAILURE() << "the link is down";
  } catch (const ContactLost& lost) {
    EXPECT_THAT(lost.what(), AllOf(HasSubstr("all-reduce failed on rank 1"), HasSubstr("the link is down")));
  }
}

// As both groups call c10d, whose stores throw errors of the first kind and Gloo those of the second.
TEST(Guarded, MakesLostContactOfErrorsOfTheConnectionAlone) {
  const auto thrown = [](auto fail) -> std::string {
    try {
      Guarded("barrier", 3, fail);
    } catch (const ContactLost& lost) {
      return lost.what();
    } catch (const std::exception&) {
      return "its own";
    }
    return "nothing";
  };
  EXPECT_EQ(thrown([] { C10_THROW_ERROR(DistStoreError, "no store"); }), "barrier failed on rank 3: no store");
  EXPECT_EQ(thrown([] { C10_THROW_ERROR(DistNetworkError, "closed"); }), "barrier failed on rank 3: closed");
  EXPECT_EQ(thrown([] { throw std::runtime_error("reset by peer"); }), "barrier failed on rank 3: reset by peer");
  EXPECT_EQ(thrown([] { TORCH_CHECK(false, "a wrong shape"); }), "its own");
  EXPECT_EQ(thrown([] { throw std::invalid_argument("a wrong root"); }), "its own");
  EXPECT_EQ(Guarded("barrier", 3, [] { return 7; }), 7);
}

TEST_F(DeviceGroups, EndWithoutWaitingForOthers) {
  group_.reset();
  EXPECT_TRUE(backend_->is_aborted);
}

// How ranks with these devices become a group.
class Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GlooIsBuilt().ok()) GTEST_SKIP() << GlooIsBuilt();
  }

  static constexpr NcclModule kFake = {
      [](const c10::intrusive_ptr<c10d::Store>&, int rank, int size, at::Device, std::chrono::milliseconds) {
        return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<RecordingBackend>(rank, size));
      }};
  static constexpr NcclModule kBroken = {
      [](const c10::intrusive_ptr<c10d::Store>&, int, int, at::Device,
         std::chrono::milliseconds) -> c10::intrusive_ptr<c10d::Backend> { throw std::runtime_error("no driver"); }};

  // The backends, or the errors, of ranks whose GPUs have these names.
  static std::vector<std::string> Made(const std::vector<std::string>& ids, const NcclModule* nccl = &kFake) {
    std::vector<std::string> made(ids.size());
    const std::vector<std::unique_ptr<Board>> boards = OpenBoards(static_cast<int>(ids.size()));
    InThreads(ids.size(), [&](std::size_t rank) {
      std::unique_ptr<Group> host = MakeGloo(*boards[rank], "test", kPatience, /*local=*/true).value();
      const RankDevice own{.id = ids[rank], .device = at::kMeta, .nccl = nccl};
      const auto group = WithDevice(std::move(host), own, *boards[rank], "test", kPatience);
      made[rank] = group.ok() ? (*group)->backend() : group.status().ToString();
      boards[rank]->Exchange("end", "", kPatience);
    });
    return made;
  }
};

TEST_F(Devices, OfProcessorsNeedNoBackend) { EXPECT_THAT(Made({"", ""}, nullptr), ElementsAre("gloo", "gloo")); }

TEST_F(Devices, OneForEachRankExchangesByTheirBackend) {
  EXPECT_THAT(Made({"a", "b", "c"}), ElementsAre("fake", "fake", "fake"));
}

TEST_F(Devices, ThatRanksShareAreRefused) {
  const auto refused = AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("ranks 0 and 2 have the same GPU (a)"));
  EXPECT_THAT(Made({"a", "b", "a"}), ElementsAre(refused, refused, refused));
}

TEST_F(Devices, OfDifferentKindsAreRefused) {
  const auto refused = AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("--device"),
                             HasSubstr("rank 1 computes on processors and rank 0 on a GPU"));
  EXPECT_THAT(Made({"a", ""}), ElementsAre(refused, refused));
  EXPECT_THAT(Made({"", "a"})[0], HasSubstr("rank 0 computes on processors and rank 1 on a GPU"));
}

TEST_F(Devices, WithoutNcclSayWhatToBuild) {
  EXPECT_THAT(Made({"a", "b"}, nullptr)[1], AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("ROOFBENCH_NCCL_INCLUDE")));
  EXPECT_THAT(Made({"a", "b"}, &kBroken)[0], AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("NCCL: no driver")));
}

}  // namespace
}  // namespace roofbench::ranks
