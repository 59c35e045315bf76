// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/link_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ranks/in_threads.h"

namespace roofbench::ranks {
namespace {

TEST(LinkSpeed, IsTheLineThroughTwoMessages) {
  const LinkSpeed speed = FitLink(8, 20e-6 + 8 / 1e9, 1e6, 20e-6 + 1e6 / 1e9);
  EXPECT_NEAR(speed.alpha, 20e-6, 1e-12);
  EXPECT_NEAR(speed.beta, 1e9, 1);
  EXPECT_NEAR(speed.Seconds(6, 3e6), 6 * 20e-6 + 3e-3, 1e-9);
}

TEST(LinkSpeed, IsUnknownIfALongMessageTakesNoLonger) {
  EXPECT_EQ(FitLink(8, 1e-3, 1e6, 1e-3).beta, 0);
  EXPECT_EQ(FitLink(8, 1e-3, 1e6, 1e-3).Seconds(2, 1e6), 0);
}

// Sends after a delay, which is longer for long messages.
class SlowLink : public Group {
 public:
  explicit SlowLink(Group& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string backend() const override { return inner_.backend(); }
  void AllReduce(at::Tensor& tensor) override { inner_.AllReduce(tensor); }
  void AllGather(at::Tensor& output, const at::Tensor& input) override { inner_.AllGather(output, input); }
  void ReduceScatter(at::Tensor& output, const at::Tensor& input) override { inner_.ReduceScatter(output, input); }
  void Broadcast(at::Tensor& tensor, int root) override { inner_.Broadcast(tensor, root); }
  void AllToAll(at::Tensor& output, const at::Tensor& input) override { inner_.AllToAll(output, input); }
  void Send(const at::Tensor& tensor, int to) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(tensor.numel() > 8 ? 80 : 4));
    inner_.Send(tensor, to);
  }
  void Receive(at::Tensor& tensor, int from) override { inner_.Receive(tensor, from); }
  void SendReceive(const at::Tensor& sent, int to, at::Tensor& received, int from) override {
    inner_.SendReceive(sent, to, received, from);
  }
  void Barrier() override { inner_.Barrier(); }

 private:
  Group& inner_;
};

// The bounds follow from the delays alone, however busy the machine is.
TEST(LinkMeter, TellsAllRanksTheSpeedOfTheSlowestPair) {
  if (!GlooIsBuilt().ok()) GTEST_SKIP() << GlooIsBuilt();
  for (const int size : {2, 5}) {
    std::vector<LinkSpeed> speeds(static_cast<std::size_t>(size));
    InGroup(size, [&](Group& group) {
      SlowLink slow(group);
      const bool is_slow = group.rank() >= size / 2 / 2 * 2;  // the last pair
      LinkSpeed& own = speeds[static_cast<std::size_t>(group.rank())];
      own = LinkMeter(is_slow ? slow : group, 1 << 20, std::make_unique<timing::CpuClock>(), at::kCPU).Measure(0.01);
      group.Barrier();
    });
    for (const LinkSpeed& speed : speeds) {
      EXPECT_EQ(speed.alpha, speeds[0].alpha);
      EXPECT_EQ(speed.beta, speeds[0].beta);
      EXPECT_GE(speed.Seconds(1, 1 << 20), 0.08 * 0.999);
    }
  }
}

// A GPU's clock: a mark is passed later, and chunks have room for few.
class LateClock final : public timing::ForwardingClock {
 public:
  using ForwardingClock::ForwardingClock;
  void Mark() override {
    passed_.push_back(static_cast<double>(passed_.size() * passed_.size()) * 1e-3);
    most = std::max(most, passed_.size());
  }
  void BeginChunk(std::size_t) override { passed_.clear(); }
  std::span<const double> EndChunk() override { return passed_; }
  std::size_t MaxMarks() const override { return 6; }

  std::size_t most = 0;

 private:
  std::vector<double> passed_;
};

TEST(LinkMeter, ReadsTheClockOfTheDevice) {
  if (!GlooIsBuilt().ok()) GTEST_SKIP() << GlooIsBuilt();
  timing::CpuClock own;
  InGroup(2, [&](Group& group) {
    auto clock = std::make_unique<LateClock>(own);
    const LateClock& late = *clock;
    LinkMeter meter(group, 1 << 20, std::move(clock), at::kCPU);
    // Both messages take as long by that clock, whatever they take here.
    EXPECT_EQ(meter.Measure(3600).beta, 0);
    EXPECT_EQ(late.most, 6) << "a chunk has no room for more";
  });
}

}  // namespace
}  // namespace roofbench::ranks
