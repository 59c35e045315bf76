// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/device_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <tuple>
#include <vector>

#include "lib/kernels/simd/isa.h"
#include "tests/hardware/fake_tree.h"

namespace roofbench::hardware {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using workload::Dtype;

constexpr double kKibi = 1024;
constexpr double kMebi = 1024 * kKibi;
constexpr double kGibi = 1024 * kMebi;

class DeviceFactsTest : public FakeTree {
 protected:
  // One cache of one processor.
  void WriteCache(int cpu, int index, int level, const std::string& type, const std::string& size,
                  const std::string& shared) const {
    const std::string folder =
        "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
    Write({{folder + "level", std::to_string(level)},
           {folder + "type", type},
           {folder + "size", size},
           {folder + "shared_cpu_list", shared}});
  }

  CpuFacts Facts() const { return ReadCpuFacts(root_); }
};

// For each level, in their order: bytes, processors that share an instance, instances.
std::vector<std::tuple<double, int, int>> Caches(const CpuFacts& facts) {
  std::vector<std::tuple<double, int, int>> caches;
  for (const CacheLevel& level : facts.caches) caches.emplace_back(level.bytes, level.shared_by, level.instances);
  return caches;
}

// The precisions that the processor has instructions for.
std::vector<Dtype> Supported(const CpuFacts& facts) {
  std::vector<Dtype> supported;
  for (const Dtype dtype : workload::kDtypes) {
    if (facts.Supports(dtype)) supported.push_back(dtype);
  }
  return supported;
}

// Two performance cores with two threads each, and a cluster of four efficiency cores.
TEST_F(DeviceFactsTest, ReadsAHybridProcessor) {
  Write({{"proc/cpuinfo",
          "processor\t: 0\nmodel\t\t: 151\nmodel name\t: 12th Gen Intel(R) Core(TM) i5-1240P\n"
          "flags\t\t: fpu sse2 avx fma avx2 avx_vnni\n\nprocessor\t: 1\nmodel name\t: another"},
         {"proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB"},
         {"proc/self/status", "Name:\troofbench\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7"},
         {"sys/devices/system/cpu/online", "0-7"},
         {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"},
         {"sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"}});
  for (int cpu = 0; cpu < 8; ++cpu) {
    const bool fast = cpu < 4;
    const std::string core = !fast ? std::to_string(cpu) : cpu < 2 ? "0-1" : "2-3";
    WriteCache(cpu, 0, 1, "Data", fast ? "48K" : "32K", core);
    WriteCache(cpu, 1, 1, "Instruction", fast ? "32K" : "64K", core);
    WriteCache(cpu, 2, 2, "Unified", fast ? "1280K" : "2048K", fast ? core : "4-7");
    WriteCache(cpu, 3, 3, "Unified", "12M", "0-7");
  }
  const CpuFacts facts = Facts();
  EXPECT_EQ(facts.model, "12th Gen Intel(R) Core(TM) i5-1240P");
  EXPECT_THAT(facts.arch, Not(IsEmpty()));
  EXPECT_EQ(facts.logical_cpus, 8);
  EXPECT_THAT(facts.affinity, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(facts.isa, "avx2");
  EXPECT_THAT(Supported(facts), ElementsAre(Dtype::kFp32, Dtype::kInt8, Dtype::kFp64));
  EXPECT_EQ(facts.governor, "powersave");
  EXPECT_EQ(facts.huge_pages, "madvise");
  EXPECT_EQ(facts.total_memory_bytes, 16'000'000 * kKibi);
  // The smaller one of the two kinds of cores.
  EXPECT_THAT(Caches(facts),
              ElementsAre(std::tuple(32 * kKibi, 1, 6), std::tuple(1280 * kKibi, 2, 3), std::tuple(12 * kMebi, 8, 1)));
  EXPECT_EQ(facts.caches[0].level, 1);
  EXPECT_EQ(facts.LastLevelCacheBytes(), 12 * kMebi);
}

// Two core complexes with a third-level cache each; the process may use one processor of each.
TEST_F(DeviceFactsTest, ReadsTwoLastLevelCachesAndTheAffinity) {
  Write({{"proc/cpuinfo", "model name\t: AMD EPYC 9654\nflags\t\t: fma avx2 avx512f avx512_vnni avx512_bf16"},
         {"proc/self/status", "Cpus_allowed_list:\t1,5"},
         {"sys/devices/system/cpu/online", "0-3,5-7"}});
  for (int cpu = 0; cpu < 8; ++cpu) {
    WriteCache(cpu, 0, 1, "Data", "32K", std::to_string(cpu));
    WriteCache(cpu, 1, 3, "Unified", "32768K", cpu < 4 ? "0-3" : "4-7");
  }
  const CpuFacts facts = Facts();
  EXPECT_EQ(facts.logical_cpus, 7);
  EXPECT_THAT(facts.affinity, ElementsAre(1, 5));
  EXPECT_THAT(Caches(facts), ElementsAre(std::tuple(32 * kKibi, 1, 2), std::tuple(32 * kMebi, 4, 2)));
  EXPECT_EQ(facts.LastLevelCacheBytes(), 64 * kMebi);
  Write("proc/self/status", "Cpus_allowed_list:\t5-6");
  EXPECT_EQ(Facts().LastLevelCacheBytes(), 32 * kMebi);
}

TEST_F(DeviceFactsTest, FlagsNameVectorsAndPrecisions) {
  const std::vector<Dtype> all = {Dtype::kFp32, Dtype::kBf16, Dtype::kFp16, Dtype::kInt8, Dtype::kFp64};
  const struct {
    const char* cpuinfo;
    const char* isa;
    std::vector<Dtype> supported;
  } table[] = {
      {"flags\t\t: fma avx2 avx512f avx512_vnni avx512_bf16 avx512_fp16", "avx512", all},
      {"flags\t\t: avx512f amx_bf16 amx_tile amx_int8",
       "avx512",
       {Dtype::kFp32, Dtype::kBf16, Dtype::kInt8, Dtype::kFp64}},
      {"processor\t: 0\nFeatures\t: fp asimd asimdhp asimddp bf16\nCPU part\t: 0xd4f", "baseline", all},
      {"flags\t\t: avx2", "baseline", {Dtype::kFp32, Dtype::kFp64}},  // without fma
  };
  for (const auto& [cpuinfo, isa, supported] : table) {
    Write("proc/cpuinfo", cpuinfo);
    EXPECT_EQ(Facts().isa, isa) << cpuinfo;
    EXPECT_EQ(Supported(Facts()), supported) << cpuinfo;
  }
}

TEST_F(DeviceFactsTest, AnEmptySystemIsUnknown) {
  const CpuFacts facts = Facts();
  EXPECT_EQ(facts.model, "unknown");
  EXPECT_EQ(facts.logical_cpus, 0);
  EXPECT_THAT(facts.affinity, IsEmpty());
  EXPECT_THAT(facts.caches, IsEmpty());
  EXPECT_EQ(facts.LastLevelCacheBytes(), 0);
  EXPECT_EQ(facts.isa, "baseline");
  EXPECT_THAT(Supported(facts), ElementsAre(Dtype::kFp32, Dtype::kFp64));
  EXPECT_EQ(facts.governor, "unknown");
  EXPECT_EQ(facts.huge_pages, "unknown");
  EXPECT_EQ(facts.total_memory_bytes, 0);
  EXPECT_EQ(AvailableMemoryBytes(root_), 0);
  EXPECT_FALSE(ReadProcessorTime(root_).has_value());
}

// Each row writes files in addition to the row before, unless it begins another tree.
TEST_F(DeviceFactsTest, AvailableMemoryIsWhatTheCgroupsLeave) {
  const Files much = {{"proc/meminfo", "MemFree:            12 kB\nMemAvailable:   67108864 kB"}};
  const std::string v2 = "sys/fs/cgroup/";
  const std::string v1 = "sys/fs/cgroup/memory/";
  const std::string one = v1 + "process/1/memory.";
  const struct {
    const char* meaning;
    bool starts;
    Files files;
    double bytes;
  } table[] = {
      {"no cgroup", true, much, 64 * kGibi},
      {"version 2",
       false,
       {{"proc/self/cgroup", "0::/job"},
        {v2 + "job/memory.max", "4294967296"},
        {v2 + "job/memory.current", "1073741824"}},
       3 * kGibi},
      {"page cache gives way",
       false,
       {{v2 + "job/memory.stat", "anon 1\nfile 2\ninactive_file 536870912"}},
       3.5 * kGibi},
      {"more used than allowed", false, {{v2 + "job/memory.current", "9294967296"}}, 0},
      {"a parent's limit",
       true,
       {{"proc/self/cgroup", "0::/pod/container/job"},
        {v2 + "pod/container/job/memory.max", "max"},
        {v2 + "pod/container/job/memory.current", "100"},
        {v2 + "pod/memory.max", "2147483648"},
        {v2 + "pod/memory.current", "1073741824"}},
       kGibi},
      // Inside a container the path names a folder of the host, and the container's limit stands at the mount.
      {"a path of the host",
       true,
       {{"proc/self/cgroup", "0::/system.slice/docker-1234.scope"},
        {v2 + "memory.max", "1073741824"},
        {v2 + "memory.current", "536870912"}},
       0.5 * kGibi},
      {"no limit", false, {{"proc/self/cgroup", "0::/"}, {v2 + "memory.max", "max"}, much[0]}, 64 * kGibi},
      {"version 1",
       true,
       {{"proc/self/cgroup", "9:name=systemd:/\n4:cpuset,memory:/process/1\n1:cpu:/other\n0::/"},
        {one + "limit_in_bytes", "4294967296"},
        {one + "usage_in_bytes", "2147483648"},
        {one + "stat", "inactive_file 1\ntotal_inactive_file 1073741824"},
        {v1 + "memory.limit_in_bytes", "9223372036854771712"},
        {v1 + "memory.usage_in_bytes", "5000000000"}},
       3 * kGibi},
      {"version 1 without a limit: no source reports the size", false, {{"proc/self/cgroup", "4:memory:/"}}, 0},
      {"version 1 without a limit", false, much, 64 * kGibi},
  };
  for (const auto& [meaning, starts, files, bytes] : table) {
    if (starts) std::filesystem::remove_all(root_);
    Write(files);
    EXPECT_EQ(AvailableMemoryBytes(root_), bytes) << meaning;
  }
}

TEST_F(DeviceFactsTest, ProcessorTimeIsBusyWithoutIdleAndSteal) {
  Write("proc/stat", "cpu  10 20 30 40 50 60 70 800 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10");
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(ReadProcessorTime(root_)->stolen, 800.0 / ticks);
  EXPECT_DOUBLE_EQ(ReadProcessorTime(root_)->busy, (10.0 + 20 + 30 + 60 + 70) / ticks);
  Write("proc/stat", "cpu  10 20 30 40 50 60 70\ncpu0 1 2 3 4 5 6 7 8");
  EXPECT_FALSE(ReadProcessorTime(root_).has_value());
}

TEST(DeviceFacts, DescribesThisMachine) {
  const CpuFacts facts = ReadCpuFacts();
  EXPECT_GE(facts.logical_cpus, 1);
  EXPECT_GE(facts.affinity.size(), 1);
  EXPECT_EQ(facts.isa, kernels::WidestVectors());
  EXPECT_GT(facts.total_memory_bytes, AvailableMemoryBytes());
  EXPECT_GT(AvailableMemoryBytes(), 0);
  for (const CacheLevel& level : facts.caches) {
    EXPECT_GT(level.bytes, 0);
    EXPECT_GE(level.shared_by, 1);
    EXPECT_GE(level.instances, 1);
  }
}

}  // namespace
}  // namespace roofbench::hardware
