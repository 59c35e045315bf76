// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/ranks/in_threads.h"

namespace roofbench::ranks {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Place> PlaceIn(const std::map<std::string, std::string>& environment) {
  return PlaceOfThisProcess([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Place, IsNoneWithoutALauncher) {
  for (const auto& environment : {std::map<std::string, std::string>{},
                                  {{"RANK", "3"}},                                    // a container's own
                                  {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}}) {  // a batch script
    const absl::StatusOr<Place> place = PlaceIn(environment);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->launcher, Launcher::kNone);
    EXPECT_EQ(place->size, 1);
  }
}

TEST(Place, OfTorchrun) {
  std::map<std::string, std::string> environment = {
      {"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  absl::StatusOr<Place> place = PlaceIn(environment);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->launcher, Launcher::kTorchrun);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->host, "node7");
  EXPECT_EQ(place->port, 29500);
  EXPECT_TRUE(place->serves);
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_FALSE(PlaceIn(environment)->serves) << "torchrun itself serves the board";
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(place->restarts, 0);
  environment["TORCHELASTIC_RESTART_COUNT"] = "2";
  environment["RANK"] = "3";
  place = PlaceIn(environment);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->local_rank, 3) << "all are here";
  environment["LOCAL_RANK"] = "1";
  EXPECT_EQ(PlaceIn(environment)->local_rank, 1);
  EXPECT_FALSE(place->serves);
  EXPECT_EQ(place->restarts, 2);
}

TEST(Place, OfSlurm) {
  const absl::StatusOr<Place> place = PlaceIn({{"SLURM_PROCID", "1"},
                                               {"SLURM_LOCALID", "0"},
                                               {"SLURM_NTASKS", "2"},
                                               {"MASTER_ADDR", "node1"},
                                               {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->launcher, Launcher::kSlurm);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->local_rank, 0);
}

TEST(Place, NamesTheVariableAtFault) {
  const std::map<std::string, std::string> good = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node"}, {"MASTER_PORT", "29500"}};
  for (const char* name : {"WORLD_SIZE", "MASTER_PORT"}) {
    auto environment = good;
    environment.erase(name);
    EXPECT_THAT(PlaceIn(environment).status().ToString(), HasSubstr(std::string(name) + " is not")) << name;
  }
  for (const auto& [name, value] :
       {std::pair("RANK", "2"), {"LOCAL_RANK", "2"}, {"WORLD_SIZE", "none"}, {"MASTER_PORT", "70000"}}) {
    auto environment = good;
    environment[name] = value;
    EXPECT_THAT(PlaceIn(environment).status().ToString(), HasSubstr(std::string(name) + "=" + value)) << name;
  }
}

TEST(SharesProcessors, IsFalseForAProcessBoundToOthers) {
  const std::vector<cpu_set_t> single = SingleProcessors();
  if (single.size() < 2) GTEST_SKIP() << "one processor";
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_TRUE(SharesProcessors(child)) << "both may run anywhere";
  std::thread([&] {  // the test's own thread stays unbound
    EXPECT_EQ(sched_setaffinity(0, sizeof(cpu_set_t), &single[0]), 0);
    EXPECT_TRUE(SharesProcessors(child));
    EXPECT_EQ(sched_setaffinity(child, sizeof(cpu_set_t), &single[1]), 0);
    EXPECT_FALSE(SharesProcessors(child));
    EXPECT_EQ(sched_setaffinity(child, sizeof(cpu_set_t), &single[0]), 0);
    EXPECT_TRUE(SharesProcessors(child));
  })
      .join();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(SharesProcessors(child)) << "it has ended: unknown";
}

}  // namespace
}  // namespace roofbench::ranks
