// SPDX-License-Identifier: Apache-2.0
#include "lib/run/rank_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/device/gpu_device.h"
#include "tests/device/fake_gpu.h"
#include "tests/ranks/fake_backend.h"
#include "tests/ranks/in_threads.h"

namespace roofbench {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Work = std::function<absl::Status(RankTeam&, std::size_t index)>;

class RankTeamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ranks::GlooIsBuilt().ok()) GTEST_SKIP() << ranks::GlooIsBuilt();
  }

  // Calls `lead` on rank 0 and `follow` on the others, each with the team of its own thread.
  static void InTeam(int size, milliseconds timeout, const std::vector<std::string>& fingerprints,
                     const std::function<void(absl::StatusOr<std::unique_ptr<RankTeam>>)>& each) {
    std::promise<uint16_t> port;
    std::shared_future<uint16_t> known = port.get_future().share();
    ranks::InThreads(static_cast<std::size_t>(size), [&](std::size_t rank) {
      ranks::Place place{.launcher = ranks::Launcher::kOurs, .rank = static_cast<int>(rank), .size = size};
      const std::string& fingerprint = fingerprints[rank % fingerprints.size()];
      if (rank > 0) {
        place.port = known.get();
        return each(RankTeam::Meet(place, fingerprint, timeout));
      }
      place.serves = true;
      each(RankTeam::Meet(place, fingerprint, timeout, [&](uint16_t chosen) {
        port.set_value(chosen);
        return std::unique_ptr<ranks::RankProcesses>();
      }));
    });
  }

  // Outcomes at rank 0 of `cases` cases, in which every rank does `work`.
  static std::vector<absl::Status> Run(
      int size, std::size_t cases, const Work& work, milliseconds timeout = ranks::kPatience,
      const std::function<void(RankTeam&)>& prepare = [](RankTeam&) {}) {
    std::vector<absl::Status> statuses;
    InTeam(size, timeout, {"same"}, [&](absl::StatusOr<std::unique_ptr<RankTeam>> made) {
      RankTeam& team = **made;
      prepare(team);
      if (team.rank() == 0) {
        for (std::size_t index = 0; index < cases; ++index) {
          statuses.push_back(team.Lead(index, [&] { return work(team, index); }));
        }
        return;
      }
      while (const std::optional<std::size_t> index = team.NextCase()) {
        team.Follow([&] { return work(team, *index); }).IgnoreError();
      }
    });
    return statuses;
  }
};

TEST_F(RankTeamTest, RunsCasesInStep) {
  std::atomic<int> runs = 0;
  const auto statuses = Run(3, 2, [&](RankTeam& team, std::size_t index) {
    EXPECT_EQ(team.ranks_here(), 3);
    EXPECT_EQ(team.ranks_sharing(), 3);
    EXPECT_TRUE(team.Any(team.rank() == 2));
    EXPECT_FALSE(team.Any(false));
    EXPECT_EQ(team.OfRankZero(team.rank() + 5), 5);
    runs += static_cast<int>(index + 1);
    return team.Agree(absl::OkStatus());
  });
  EXPECT_THAT(statuses, ::testing::Each(absl::OkStatus()));
  EXPECT_EQ(runs, 3 * (1 + 2));
}

TEST_F(RankTeamTest, ARankBoundToItsOwnProcessorsSharesThemWithNone) {
  const std::vector<cpu_set_t> single = ranks::SingleProcessors();
  if (single.size() < 2) GTEST_SKIP() << "one processor";
  cpu_set_t before{};
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  // Ranks are threads here, which look at the process's first thread for each other.
  ASSERT_EQ(sched_setaffinity(getpid(), sizeof before, &single[0]), 0);
  const auto statuses = Run(3, 1, [&](RankTeam& team, std::size_t) {
    if (team.rank() == 2) {
      EXPECT_EQ(sched_setaffinity(0, sizeof before, &single[1]), 0);
    }
    EXPECT_EQ(team.ranks_sharing(), team.rank() == 2 ? 1 : 3);
    return absl::OkStatus();
  });
  ASSERT_EQ(sched_setaffinity(getpid(), sizeof before, &before), 0);
  EXPECT_THAT(statuses, ::testing::Each(absl::OkStatus()));
}

TEST_F(RankTeamTest, TheFailureOfOneRankIsThatOfAll) {
  const auto statuses = Run(3, 4, [](RankTeam& team, std::size_t index) -> absl::Status {
    if (team.rank() == 1 && index == 0) throw std::runtime_error("the kernel broke");
    if (team.rank() == 1 && index == 1) return absl::UnimplementedError("no kernel");
    if (index == 2) {
      const absl::Status agreed = team.Agree(team.rank() == 2 ? absl::DataLossError("wrong") : absl::OkStatus());
      EXPECT_TRUE(absl::IsDataLoss(agreed)) << team.rank();
      return agreed;
    }
    team.group()->Barrier();
    return absl::OkStatus();
  });
  EXPECT_EQ(statuses[0], absl::InternalError("rank 1: the kernel broke"));
  EXPECT_EQ(statuses[1], absl::UnimplementedError("rank 1: no kernel"));
  EXPECT_EQ(statuses[2], absl::DataLossError("rank 2: wrong"));
  EXPECT_EQ(statuses[3], absl::OkStatus()) << "with a new group";
}

TEST_F(RankTeamTest, ARankThatHangsIsNamedAndMayReturn) {
  std::atomic<bool> hangs = true;
  std::vector<absl::Status> statuses;
  InTeam(3, milliseconds(10'000), {"same"}, [&](absl::StatusOr<std::unique_ptr<RankTeam>> made) {
    RankTeam& team = **made;
    const auto work = [&] {
      if (team.rank() == 2) hangs.wait(true);
      team.group()->Barrier();
      return absl::OkStatus();
    };
    if (team.rank() > 0) {
      while (team.NextCase()) team.Follow(work).IgnoreError();
      return;
    }
    statuses.push_back(team.Lead(0, work));
    hangs = false;
    hangs.notify_all();
    statuses.push_back(team.Lead(1, work));
  });
  EXPECT_THAT(statuses[0].ToString(), HasSubstr("rank 2 did not answer within 10"));
  EXPECT_EQ(statuses[1], absl::OkStatus());
}

TEST_F(RankTeamTest, AnInterruptedRankDoesNotWaitForOneThatHangs) {
  std::atomic<bool> hangs = true;
  std::atomic<bool> interrupted = false;
  absl::Status status;
  InTeam(2, ranks::kPatience, {"same"}, [&](absl::StatusOr<std::unique_ptr<RankTeam>> made) {
    RankTeam& team = **made;
    const auto work = [&] {
      if (team.rank() == 1) hangs.wait(true);
      interrupted = true;
      return absl::OkStatus();
    };
    if (team.rank() > 0) {
      while (team.NextCase()) team.Follow(work).IgnoreError();
      return;
    }
    status = team.Lead(0, work, [&] { return interrupted.load(); });
    hangs = false;
    hangs.notify_all();
  });
  EXPECT_EQ(status, absl::CancelledError("interrupted while another rank did not answer"));
}

TEST_F(RankTeamTest, RanksWithOtherFlagsAreRefused) {
  InTeam(2, ranks::kPatience, {"1.0\n--seed=1", "1.0\n--seed=2"},
         [](const absl::StatusOr<std::unique_ptr<RankTeam>>& made) {
           EXPECT_TRUE(absl::IsFailedPrecondition(made.status()));
           EXPECT_THAT(made.status().ToString(), AllOf(HasSubstr("--seed=1"), HasSubstr("--seed=2")));
         });
}

// Devices of ranks that each have a stand-in for a GPU.
class RanksWithGpus : public RankTeamTest {
 protected:
  static std::unique_ptr<GpuDevice> Gpu(timing::FakeMachine& machine, const std::string& bus) {
    static constexpr ranks::NcclModule kFake = {
        [](const c10::intrusive_ptr<c10d::Store>&, int rank, int size, at::Device, milliseconds) {
          return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<ranks::RecordingBackend>(rank, size));
        }};
    auto gpu = std::make_unique<FakeGpu>(machine);
    gpu->fake_facts.pci_bus_id = bus;
    gpu->exports[ranks::kNcclSymbol] = &kFake;
    GpuParts parts;
    parts.gpu = std::move(gpu);
    parts.torch_device = at::kMeta;
    parts.host_seconds = [&machine] { return machine.host; };
    return std::make_unique<GpuDevice>(std::move(parts));
  }

  // The outcomes of two cases on ranks whose GPUs are at these places.
  static std::vector<absl::Status> RunOn(const std::vector<std::string>& buses, std::vector<std::string>& backends) {
    std::vector<timing::FakeMachine> machines(buses.size());
    return Run(
        static_cast<int>(buses.size()), 2,
        [&](RankTeam& team, std::size_t) {
          if (team.rank() == 0) backends.push_back(team.group()->backend());
          return absl::OkStatus();
        },
        ranks::kPatience,
        [&](RankTeam& team) {
          const auto rank = static_cast<std::size_t>(team.rank());
          team.SetDevice(*Gpu(machines[rank], buses[rank]));
        });
  }
};

TEST_F(RanksWithGpus, ExchangeTheirMemoryByItsBackend) {
  std::vector<std::string> backends;
  EXPECT_THAT(RunOn({"0000:65:00.0", "0000:66:00.0"}, backends), ::testing::Each(absl::OkStatus()));
  EXPECT_THAT(backends, ::testing::ElementsAre("fake", "fake"));
}

TEST_F(RanksWithGpus, AreRefusedWhereTheyShareOne) {
  std::vector<std::string> backends;
  const auto statuses = RunOn({"0000:65:00.0", "0000:65:00.0"}, backends);
  EXPECT_TRUE(absl::IsUnimplemented(statuses[0])) << statuses[0];
  EXPECT_THAT(statuses[0].ToString(), HasSubstr("ranks 0 and 1 have the same GPU (0000:65:00.0 of machine"));
  EXPECT_EQ(statuses[1], statuses[0]);
  EXPECT_THAT(backends, ::testing::IsEmpty());
}

TEST_F(RanksWithGpus, NeedOneEach) {
  timing::FakeMachine machine;
  const std::unique_ptr<GpuDevice> device = Gpu(machine, "0000:65:00.0");
  const auto refusal = [&](const std::string& spec) {
    RunOptions options;
    options.device = spec;
    return RankTeams(options, "", {"no_program"}).For(1000, *device).status();
  };
  EXPECT_TRUE(absl::IsUnimplemented(refusal("cuda:1"))) << refusal("cuda:1");
  EXPECT_THAT(refusal("cuda:1").ToString(), AllOf(HasSubstr("--device=cuda:1 names one"), HasSubstr("VISIBLE")));
  const bool has_module = LoadGpuModule().ok();
  EXPECT_THAT(refusal("cuda").ToString(), HasSubstr(has_module ? "needs 1000 GPUs, one for each rank" : "CUDA part"));
}

}  // namespace
}  // namespace roofbench
