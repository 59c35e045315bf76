// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/collectives.h"

#include <gtest/gtest.h>

#include <optional>

#include "lib/workload/roofline.h"

namespace roofbench::workload {
namespace {

using enum CollectiveKind;

// The factors of nccl-tests, doc/PERFORMANCE.md, for 2, 4 and 8 ranks; and the arrays that Gloo's busiest of 2, 4 and 6
// ranks sends.
struct Row {
  CollectiveKind kind;
  double bus[3];
  double gloo[3];
};
constexpr Row kRows[] = {
    {kAllReduce, {1, 1.5, 1.75}, {1, 1.5, 10.0 / 6}},         {kAllGather, {0.5, 0.75, 0.875}, {0.5, 0.75, 5.0 / 6}},
    {kReduceScatter, {0.5, 0.75, 0.875}, {1, 1.5, 10.0 / 6}}, {kBroadcast, {1, 1, 1}, {1, 2, 3}},
    {kAllToAll, {0.5, 0.75, 0.875}, {0.5, 0.75, 5.0 / 6}},    {kSendRecv, {1, 1, 1}, {1, 1, 1}},
};

TEST(Collective, BytesAreThoseOfNcclTestsAndOfGloosAlgorithms) {
  constexpr double kBusRanks[] = {2, 4, 8};
  constexpr double kGlooRanks[] = {2, 4, 6};
  for (const Row& row : kRows) {
    for (int i = 0; i < 3; ++i) {
      const Cost cost = Collective{row.kind, kBusRanks[i], 1000}.GlooCost();
      EXPECT_DOUBLE_EQ(cost.bus_bytes, 1000 * row.bus[i]) << Name(row.kind) << " of " << kBusRanks[i];
      EXPECT_EQ(cost.array_bytes, 1000);
      EXPECT_DOUBLE_EQ((Collective{row.kind, kGlooRanks[i], 1000}.GlooCost().wire_bytes), 1000 * row.gloo[i])
          << Name(row.kind) << " of " << kGlooRanks[i];
    }
  }
}

TEST(Collective, AnOperandInPlaceTakesNoMemory) {
  EXPECT_EQ((Collective{kAllGather, 4, 1000, false}.GlooCost().resident_bytes), 2250);
  EXPECT_EQ((Collective{kAllGather, 4, 1000, true}.GlooCost().resident_bytes), 2000);
  EXPECT_EQ((Collective{kAllReduce, 4, 1000}.GlooCost().resident_bytes), 1000);
  EXPECT_EQ((Collective{kSendRecv, 4, 1000}.GlooCost().resident_bytes), 2000);
}

TEST(Collective, NcclCopiesNoArrayAndChoosesItsAlgorithm) {
  for (const Row& row : kRows) {
    const Cost cost = Collective{row.kind, 4, 1000}.NcclCost();
    EXPECT_DOUBLE_EQ(cost.bus_bytes, 1000 * row.bus[1]) << Name(row.kind);
    EXPECT_EQ(cost.wire_bytes, 0);
  }
  EXPECT_EQ((Collective{kAllGather, 4, 1000, false}.NcclCost().resident_bytes), 1250);
  EXPECT_EQ((Collective{kAllGather, 4, 1000, true}.NcclCost().resident_bytes), 1000);
  EXPECT_EQ((Collective{kAllToAll, 4, 1000}.NcclCost().resident_bytes), 2000);
}

TEST(Collective, MessagesFollowEachOther) {
  const auto messages = [](CollectiveKind kind, double ranks) {
    return Collective{kind, ranks, 1000}.GlooCost().link_messages;
  };
  EXPECT_EQ(messages(kAllReduce, 4), 6);
  EXPECT_EQ(messages(kReduceScatter, 4), 3);
  EXPECT_EQ(messages(kAllToAll, 4), 3);
  EXPECT_EQ(messages(kBroadcast, 5), 3);
  EXPECT_EQ(messages(kSendRecv, 4), 1);
}

TEST(Collective, ItsRoofIsTheLink) {
  const Cost cost = Collective{kAllReduce, 4, 1000}.GlooCost();
  const Peaks peaks{.link = 500};
  EXPECT_EQ(RoofSeconds(cost, {}), std::nullopt);
  EXPECT_EQ(RoofSeconds(cost, peaks), 3);
  EXPECT_EQ(RoofSeconds(cost, peaks.Scaled(Bound::kLink, 2)), 1.5);
  EXPECT_EQ(RoofSeconds(cost, peaks.Scaled(Bound::kMemory, 2)), 3);
  Cost step{.operations = {{.bytes_read = 100}}};
  step += cost;
  EXPECT_EQ(RoofSeconds(step, {.read = 100, .link = 500}), 4);
}

TEST(Collective, CostsAddAndRepeat) {
  Cost cost = Repeated(Collective{kAllReduce, 4, 1000}.GlooCost(), 3);
  cost += Collective{kBroadcast, 4, 10}.GlooCost();
  EXPECT_DOUBLE_EQ(cost.array_bytes, 3010);
  EXPECT_DOUBLE_EQ(cost.bus_bytes, 4510);
  EXPECT_DOUBLE_EQ(cost.wire_bytes, 4520);
  EXPECT_EQ(cost.Bytes(), 0);
}

}  // namespace
}  // namespace roofbench::workload
