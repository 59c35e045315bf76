// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/machine_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace roofbench::hardware {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class MachineFactsTest : public testing::Test {
 protected:
  MachineFactsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "machine_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~MachineFactsTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  Disturbance Find(const std::string& fact) const {
    for (const Disturbance& one : Disturbances(root_.string())) {
      if (one.fact == fact) return one;
    }
    ADD_FAILURE() << fact;
    return {};
  }

  std::filesystem::path root_;
};

TEST_F(MachineFactsTest, WhatTheSystemDoesNotTellIsUnknownAndNoFault) {
  for (const Disturbance& one : Disturbances(root_.string())) {
    EXPECT_EQ(one.value, "unknown") << one.fact;
    EXPECT_THAT(one.remedy, IsEmpty()) << one.fact;
  }
}

TEST_F(MachineFactsTest, EachDisturbanceHasARemedy) {
  Write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  Write("sys/devices/system/cpu/intel_pstate/no_turbo", "0");
  Write("sys/fs/cgroup/cpu.max", "150000 100000");
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  Write("sys/devices/system/node/online", "0-1");
  Write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
  const struct {
    const char* fact;
    const char* value;
    const char* remedy;
  } table[] = {
      {"cpu_governor", "powersave", "performance"},
      {"turbo", "on", "no_turbo"},
      {"cpu_quota", "1.5 processors", "quota"},
      {"huge_pages", "never", "madvise"},
      {"numa_nodes", "0-1", "numactl"},
      {"clock_source", "hpet", "tsc"},
  };
  for (const auto& row : table) {
    EXPECT_EQ(Find(row.fact).value, row.value) << row.fact;
    EXPECT_THAT(Find(row.fact).remedy, HasSubstr(row.remedy));
  }
}

TEST_F(MachineFactsTest, AQuietMachineNeedsNothing) {
  Write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  Write("sys/devices/system/cpu/cpufreq/boost", "0");
  Write("sys/fs/cgroup/cpu.max", "max 100000");
  Write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never");
  Write("sys/devices/system/node/online", "0");
  Write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
  for (const Disturbance& one : Disturbances(root_.string())) EXPECT_THAT(one.remedy, IsEmpty()) << one.fact;
  EXPECT_EQ(Find("cpu_quota").value, "none");
}

TEST_F(MachineFactsTest, TheOldCgroupSaysItsQuotaInTwoFiles) {
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Find("cpu_quota").value, "0.5 processors");
}

TEST_F(MachineFactsTest, ThreadsOfOneCoreAreSiblings) {
  const auto share = [&](const std::vector<std::string>& siblings) {
    for (std::size_t cpu = 0; cpu < siblings.size(); ++cpu) {
      Write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", siblings[cpu]);
    }
  };
  Write("sys/devices/system/cpu/online", "0-3");
  share({"0-1", "0-1", "2-3", "2-3"});
  EXPECT_EQ(Find("smt_siblings").value, "shared cores");
  EXPECT_THAT(Find("smt_siblings").remedy, AllOf(HasSubstr("taskset"), HasSubstr("--threads=2")));
  share({"0", "1", "2", "3"});
  EXPECT_EQ(Find("smt_siblings").value, "none");
  EXPECT_THAT(Find("smt_siblings").remedy, IsEmpty());
}

TEST_F(MachineFactsTest, FactsOfEveryResult) {
  Write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  const auto facts = MachineFacts(root_.string());
  const auto disturbances = Disturbances(root_.string());
  ASSERT_EQ(facts.size(), 2 + disturbances.size()) << "what --doctor tells of the machine";
  EXPECT_EQ(facts[0].first, "kernel");
  EXPECT_THAT(facts[0].second, HasSubstr("Linux"));
  EXPECT_EQ(facts[1].first, "processor");
  for (std::size_t i = 0; i < disturbances.size(); ++i) {
    EXPECT_EQ(facts[2 + i].first, disturbances[i].fact);
    EXPECT_EQ(facts[2 + i].second, disturbances[i].value);
  }
  EXPECT_THAT(facts, testing::Contains(testing::Pair("cpu_governor", "powersave")));
}

}  // namespace
}  // namespace roofbench::hardware
