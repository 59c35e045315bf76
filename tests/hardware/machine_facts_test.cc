// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/machine_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/hardware/fake_tree.h"

namespace roofbench::hardware {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class MachineFactsTest : public FakeTree {
 protected:
  Disturbance Find(const std::string& fact) const {
    for (const Disturbance& one : Disturbances(root_)) {
      if (one.fact == fact) return one;
    }
    ADD_FAILURE() << fact;
    return {};
  }
};

TEST_F(MachineFactsTest, UnreportedSettingsAreUnknownAndNotFaults) {
  for (const Disturbance& one : Disturbances(root_)) {
    EXPECT_EQ(one.value, "unknown") << one.fact;
    EXPECT_THAT(one.remedy, IsEmpty()) << one.fact;
  }
}

TEST_F(MachineFactsTest, EachDisturbanceHasARemedy) {
  const std::string cpu = "sys/devices/system/cpu/";
  const std::string huge_pages = "sys/kernel/mm/transparent_hugepage/enabled";
  const std::string clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
  const struct {
    const char* fact;
    Files files;
    const char* value;
    const char* remedy;  // a part of it; "": none
  } table[] = {
      {"cpu_governor", {{cpu + "cpu0/cpufreq/scaling_governor", "powersave"}}, "powersave", "performance"},
      {"cpu_governor", {{cpu + "cpu0/cpufreq/scaling_governor", "performance"}}, "performance", ""},
      {"turbo", {{cpu + "cpufreq/boost", "0"}}, "off", ""},
      {"turbo", {{cpu + "cpufreq/boost", "1"}}, "on", "cpufreq/boost"},
      {"turbo", {{cpu + "intel_pstate/no_turbo", "0"}}, "on", "no_turbo"},
      {"cpu_quota",
       {{"proc/self/cgroup", "4:cpu,cpuacct:/"},
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000"},
        {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"}},
       "0.5 processors",
       "quota"},
      {"cpu_quota",
       {{"proc/self/cgroup", "0::/"}, {"sys/fs/cgroup/cpu.max", "150000 100000"}},
       "1.5 processors",
       "quota"},
      {"cpu_quota", {{"sys/fs/cgroup/cpu.max", "max 100000"}}, "none", ""},
      {"cpu_quota",
       {{"proc/self/cgroup", "0::/pod/job"},
        {"sys/fs/cgroup/pod/job/cpu.max", "max 100000"},
        {"sys/fs/cgroup/pod/cpu.max", "50000 100000"}},
       "0.5 processors",
       "quota"},
      {"huge_pages", {{huge_pages, "always madvise [never]"}}, "never", "madvise"},
      {"huge_pages", {{huge_pages, "[always] madvise never"}}, "always", ""},
      {"numa_nodes", {{"sys/devices/system/node/online", "0-1"}}, "0-1", "numactl"},
      {"numa_nodes", {{"sys/devices/system/node/online", "0"}}, "0", ""},
      {"clock_source", {{clock, "hpet"}}, "hpet", "tsc"},
      {"clock_source", {{clock, "tsc"}}, "tsc", ""},
  };
  for (const auto& [fact, files, value, remedy] : table) {
    Write(files);
    EXPECT_EQ(Find(fact).value, value) << fact;
    EXPECT_THAT(Find(fact).remedy, HasSubstr(remedy)) << fact;
    EXPECT_EQ(Find(fact).remedy.empty(), *remedy == '\0') << fact << " " << value;
  }
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
  const auto facts = MachineFacts(root_);
  const auto disturbances = Disturbances(root_);
  ASSERT_EQ(facts.size(), 2 + disturbances.size()) << "as --doctor reports";
  EXPECT_EQ(facts[0].first, "kernel");
  EXPECT_THAT(facts[0].second, HasSubstr("Linux"));
  EXPECT_EQ(facts[1].first, "processor");
  for (std::size_t i = 0; i < disturbances.size(); ++i) {
    EXPECT_EQ(facts[2 + i].first, disturbances[i].fact);
    EXPECT_EQ(facts[2 + i].second, disturbances[i].value);
  }
  EXPECT_THAT(facts, testing::Contains(testing::Pair("cpu_governor", "powersave")));
}

TEST(WaitUntilQuiet, EndsWithTheFirstQuietSecond) {
  std::vector<double> shares = {0.4, 0.2, 0.01, 0.5};
  std::size_t asked = 0;
  EXPECT_TRUE(WaitUntilQuiet(60, [&](double /*seconds*/) { return shares.at(asked++); }));
  EXPECT_EQ(asked, 3);
}

TEST(WaitUntilQuiet, GivesUpAfterItsTime) {
  int asked = 0;
  EXPECT_FALSE(WaitUntilQuiet(5, [&](double seconds) {
    EXPECT_EQ(seconds, 1);
    ++asked;
    return 0.5;
  }));
  EXPECT_EQ(asked, 5);
}

TEST(OthersShare, IsAShare) {
  const double share = OthersShare(0.02);
  EXPECT_GE(share, 0);
  EXPECT_LE(share, 1);
}

}  // namespace
}  // namespace roofbench::hardware
