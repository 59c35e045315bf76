// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <string>

#include "tests/ranks/in_threads.h"

namespace roofbench::ranks {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPart = 5;

// Rank r's input: numbers that no other rank has, and whose sums are exact.
at::Tensor Mine(int rank, int64_t elements) { return at::arange(elements, at::kDouble).add_(1000.0 * rank); }

// The sum of the inputs of `size` ranks.
at::Tensor Sum(int size, int64_t elements) {
  return at::arange(elements, at::kDouble).mul_(size).add_(1000.0 * size * (size - 1) / 2);
}

class Groups : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!GlooIsBuilt().ok()) GTEST_SKIP() << GlooIsBuilt();
  }

  // Also for a group of one, which needs no Gloo.
  static void InEach(const std::function<void(Group&)>& work) {
    if (GetParam() == 1) return work(*MakeAlone());
    InGroup(GetParam(), work);
  }
};

INSTANTIATE_TEST_SUITE_P(Sizes, Groups, ::testing::Values(1, 2, 3, 4));

TEST_P(Groups, AllReduceSums) {
  InEach([](Group& group) {
    EXPECT_EQ(group.size(), GetParam());
    at::Tensor tensor = Mine(group.rank(), kPart);
    group.AllReduce(tensor);
    EXPECT_TRUE(tensor.equal(Sum(group.size(), kPart)));
  });
}

TEST_P(Groups, KeepsNoTensorAfterACall) {
  InEach([](Group& group) {
    std::size_t kept = 0;
    for (int call = 0; call < 50; ++call) {
      at::Tensor tensor = at::ones({kPart});
      group.AllReduce(tensor);
      kept += tensor.use_count() - 1;
      const std::unique_ptr<Work> work = group.StartAllReduce(tensor);
      work->Wait();
      kept += tensor.use_count() - 1;
      at::Tensor output = at::ones({group.size() * kPart});
      group.StartAllGather(output, tensor)->Wait();
      group.StartReduceScatter(tensor, output)->Wait();
      kept += tensor.use_count() + output.use_count() - 2;
    }
    EXPECT_EQ(kept, 0);
  });
}

TEST_P(Groups, AllGatherKeepsTheOrderOfRanks) {
  InEach([](Group& group) {
    at::Tensor output = at::empty({group.size() * kPart}, at::kDouble);
    at::Tensor later = at::empty_like(output);
    const std::unique_ptr<Work> work = group.StartAllGather(later, Mine(group.rank(), kPart));
    group.AllGather(output, Mine(group.rank(), kPart));
    work->Wait();
    for (int rank = 0; rank < group.size(); ++rank) {
      EXPECT_TRUE(output.slice(0, rank * kPart, (rank + 1) * kPart).equal(Mine(rank, kPart))) << rank;
    }
    EXPECT_TRUE(later.equal(output));
  });
}

TEST_P(Groups, ReduceScatterGivesEachRankItsPartOfTheSum) {
  InEach([](Group& group) {
    const int64_t elements = group.size() * kPart;
    at::Tensor output = at::empty({kPart}, at::kDouble);
    group.ReduceScatter(output, Mine(group.rank(), elements));
    const int64_t begin = group.rank() * kPart;
    const at::Tensor expected = Sum(group.size(), elements).slice(0, begin, begin + kPart);
    EXPECT_TRUE(output.equal(expected));
    at::Tensor overwritten = Mine(group.rank(), elements);
    group.ReduceScatterInput(output.zero_(), overwritten);
    EXPECT_TRUE(output.equal(expected));
  });
}

TEST_P(Groups, ReduceScattersThatHaveBegunEndInAnyOrder) {
  InEach([](Group& group) {
    const int64_t elements = group.size() * kPart;
    const int64_t begin = group.rank() * kPart;
    at::Tensor apart = at::empty({kPart}, at::kDouble);
    at::Tensor first = Mine(group.rank(), elements);
    at::Tensor second = Mine(group.rank(), elements).mul_(2);
    at::Tensor within = second.narrow(0, begin, kPart);
    const std::unique_ptr<Work> one = group.StartReduceScatter(apart, first);
    const std::unique_ptr<Work> other = group.StartReduceScatter(within, second);
    other->Wait();
    one->Wait();
    const at::Tensor expected = Sum(group.size(), elements).narrow(0, begin, kPart);
    EXPECT_TRUE(apart.equal(expected));
    EXPECT_TRUE(within.equal(expected.mul(2))) << "in place";
    apart.zero_();
    one->Wait();
    EXPECT_EQ(apart.sum().item<double>(), 0) << "the result is written once";
  });
}

TEST_P(Groups, BroadcastTakesTheRoots) {
  InEach([](Group& group) {
    const int root = group.size() - 1;
    at::Tensor tensor = Mine(group.rank(), kPart);
    group.Broadcast(tensor, root);
    EXPECT_TRUE(tensor.equal(Mine(root, kPart)));
  });
}

TEST_P(Groups, AllToAllTransposesTheParts) {
  InEach([](Group& group) {
    const int64_t elements = group.size() * kPart;
    at::Tensor output = at::empty({elements}, at::kDouble);
    group.AllToAll(output, Mine(group.rank(), elements));
    for (int from = 0; from < group.size(); ++from) {
      const int64_t begin = group.rank() * kPart;
      EXPECT_TRUE(
          output.slice(0, from * kPart, (from + 1) * kPart).equal(Mine(from, elements).slice(0, begin, begin + kPart)))
          << from;
    }
  });
}

TEST_P(Groups, SendsAroundARing) {
  InEach([](Group& group) {
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    at::Tensor received = at::empty({kPart}, at::kDouble);
    // Rank 0 begins: a send may wait for its receiver.
    if (group.rank() == 0) group.Send(Mine(0, kPart), next);
    group.Receive(received, previous);
    if (group.rank() != 0) group.Send(Mine(group.rank(), kPart), next);
    EXPECT_TRUE(received.equal(Mine(previous, kPart)));
  });
}

TEST_P(Groups, ABarrierWaitsForAll) {
  std::atomic<int> came = 0;
  InEach([&](Group& group) {
    ++came;
    group.Barrier();
    EXPECT_EQ(came, group.size());
  });
}

class Failures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GlooIsBuilt().ok()) GTEST_SKIP() << GlooIsBuilt();
  }
};

TEST_F(Failures, ARankThatLeavesEndsTheOthersWaitAtOnce) {
  const std::vector<std::unique_ptr<Board>> boards = OpenBoards(3);
  Meeting met(3);
  InThreads(boards.size(), [&](std::size_t rank) {
    std::unique_ptr<Group> group = MakeGloo(*boards[rank], "test", std::chrono::hours(1), /*local=*/true).value();
    met.Wait();
    if (rank == 1) {
      group.reset();
      return;
    }
    // The rank that notices first leaves as well, which ends the wait of the last one.
    EXPECT_THROW(group->Barrier(), ContactLost);
    group.reset();
  });
}

TEST_F(Failures, AConnectionThatBreaksDoesNotEndTheProcess) {
  InGroup(2, [](Group&) {});
  struct sigaction action {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_NE(action.sa_handler, SIG_DFL);
}

TEST_F(Failures, ARankThatIsLateEndsTheWaitByTimeout) {
  std::atomic<bool> is_over = false;
  InGroup(
      2,
      [&](Group& group) {
        at::Tensor tensor = Mine(group.rank(), kPart);
        if (group.rank() == 1) {
          is_over.wait(false);
          return;
        }
        EXPECT_THROW(group.StartAllReduce(tensor)->Wait(), ContactLost);
        EXPECT_THROW(group.AllReduce(tensor), ContactLost);
        is_over = true;
        is_over.notify_all();
      },
      std::chrono::milliseconds(200));
}

TEST_F(Failures, AGroupNamesTheRanksThatDoNotCome) {
  const std::vector<std::unique_ptr<Board>> boards = OpenBoards(3);
  const absl::Status status = MakeGloo(*boards[1], "test", std::chrono::milliseconds(50), /*local=*/true).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.ToString(), HasSubstr("ranks 0, 2 did not come"));
}

TEST_F(Failures, AWrongShapeIsTheRanksOwnError) {
  InGroup(2, [](Group& group) {
    at::Tensor output = at::empty({3}, at::kDouble);
    try {
      group.AllGather(output, Mine(group.rank(), kPart));
      ADD_FAILURE() << "it does not fit";
    } catch (const ContactLost& lost) {
      ADD_FAILURE() << "no rank left: " << lost.what();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): as it should be
    }
  });
}

}  // namespace
}  // namespace roofbench::ranks
