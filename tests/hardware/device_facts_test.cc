// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/device_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "lib/kernels/simd/isa.h"

namespace roofbench::hardware {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using workload::Dtype;

constexpr double kKibi = 1024;
constexpr double kMebi = 1024 * kKibi;
constexpr double kGibi = 1024 * kMebi;

// A /proc and /sys of some other machine.
class SystemTreeTest : public testing::Test {
 protected:
  SystemTreeTest() {
    std::string name = (std::filesystem::temp_directory_path() / "device_facts_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~SystemTreeTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  // One cache of one processor.
  void WriteCache(int cpu, int index, int level, const std::string& type, const std::string& size,
                  const std::string& shared) {
    const std::string folder =
        "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
    Write(folder + "level", std::to_string(level));
    Write(folder + "type", type);
    Write(folder + "size", size);
    Write(folder + "shared_cpu_list", shared);
  }

  void WriteMemAvailable(double kibibytes) {
    Write("proc/meminfo", "MemTotal:       65536000 kB\nMemFree:            12 kB\nMemAvailable:   " +
                              std::to_string(static_cast<long>(kibibytes)) + " kB");
  }

  CpuFacts Facts() const { return ReadCpuFacts(root_.string()); }
  double Available() const { return AvailableMemoryBytes(root_.string()); }

  std::filesystem::path root_;
};

// Two performance cores with two threads each, and a cluster of four efficiency cores.
TEST_F(SystemTreeTest, ReadsAHybridProcessor) {
  Write("proc/cpuinfo",
        "processor\t: 0\nmodel\t\t: 151\nmodel name\t: 12th Gen Intel(R) Core(TM) i5-1240P\n"
        "flags\t\t: fpu sse2 avx fma avx2 avx_vnni\n\nprocessor\t: 1\nmodel name\t: another");
  Write("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB");
  Write("proc/self/status", "Name:\troofbench\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7");
  Write("sys/devices/system/cpu/online", "0-7");
  Write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string core = cpu < 2 ? "0-1" : "2-3";
    WriteCache(cpu, 0, 1, "Data", "48K", core);
    WriteCache(cpu, 1, 1, "Instruction", "32K", core);
    WriteCache(cpu, 2, 2, "Unified", "1280K", core);
    WriteCache(cpu, 3, 3, "Unified", "12M", "0-7");
  }
  for (int cpu = 4; cpu < 8; ++cpu) {
    WriteCache(cpu, 0, 1, "Data", "32K", std::to_string(cpu));
    WriteCache(cpu, 1, 1, "Instruction", "64K", std::to_string(cpu));
    WriteCache(cpu, 2, 2, "Unified", "2048K", "4-7");
    WriteCache(cpu, 3, 3, "Unified", "12M", "0-7");
  }
  const CpuFacts facts = Facts();
  EXPECT_EQ(facts.model, "12th Gen Intel(R) Core(TM) i5-1240P");
  EXPECT_THAT(facts.arch, Not(IsEmpty()));
  EXPECT_EQ(facts.logical_cpus, 8);
  EXPECT_THAT(facts.affinity, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(facts.isa, "avx2");
  EXPECT_FALSE(facts.bf16_dot);
  EXPECT_TRUE(facts.int8_dot);
  EXPECT_FALSE(facts.fp16_arithmetic);
  EXPECT_EQ(facts.governor, "powersave");
  EXPECT_EQ(facts.huge_pages, "madvise");
  EXPECT_EQ(facts.total_memory_bytes, 16'000'000 * kKibi);

  ASSERT_EQ(facts.caches.size(), 3);
  EXPECT_EQ(facts.caches[0].level, 1);
  EXPECT_EQ(facts.caches[0].bytes, 32 * kKibi);  // the smaller of the two kinds
  EXPECT_EQ(facts.caches[0].shared_by, 1);
  EXPECT_EQ(facts.caches[0].instances, 6);
  EXPECT_EQ(facts.caches[1].bytes, 1280 * kKibi);
  EXPECT_EQ(facts.caches[1].shared_by, 2);
  EXPECT_EQ(facts.caches[1].instances, 3);
  EXPECT_EQ(facts.caches[2].bytes, 12 * kMebi);
  EXPECT_EQ(facts.caches[2].shared_by, 8);
  EXPECT_EQ(facts.caches[2].instances, 1);
  EXPECT_EQ(facts.LastLevelCacheBytes(), 12 * kMebi);
}

// Two core complexes with a third-level cache each; the process may use one processor of each.
TEST_F(SystemTreeTest, ReadsTwoLastLevelCachesAndTheAffinity) {
  Write("proc/cpuinfo", "model name\t: AMD EPYC 9654\nflags\t\t: fma avx2 avx512f avx512_vnni avx512_bf16 avx512_fp16");
  Write("proc/self/status", "Cpus_allowed_list:\t1,5");
  Write("sys/devices/system/cpu/online", "0-3,5-7");
  for (int cpu = 0; cpu < 8; ++cpu) {
    WriteCache(cpu, 0, 1, "Data", "32K", std::to_string(cpu));
    WriteCache(cpu, 1, 3, "Unified", "32768K", cpu < 4 ? "0-3" : "4-7");
  }
  const CpuFacts facts = Facts();
  EXPECT_EQ(facts.logical_cpus, 7);
  EXPECT_THAT(facts.affinity, ElementsAre(1, 5));
  EXPECT_EQ(facts.isa, "avx512");
  EXPECT_TRUE(facts.bf16_dot);
  EXPECT_TRUE(facts.int8_dot);
  EXPECT_TRUE(facts.fp16_arithmetic);
  ASSERT_EQ(facts.caches.size(), 2);
  EXPECT_EQ(facts.caches[1].shared_by, 4);
  EXPECT_EQ(facts.caches[1].instances, 2);
  EXPECT_EQ(facts.LastLevelCacheBytes(), 64 * kMebi);
  Write("proc/self/status", "Cpus_allowed_list:\t5-6");
  EXPECT_EQ(Facts().LastLevelCacheBytes(), 32 * kMebi);
}

TEST_F(SystemTreeTest, ReadsTheFeaturesOfAArch64) {
  Write("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimdhp asimddp bf16\nCPU part\t: 0xd4f");
  const CpuFacts facts = Facts();
  EXPECT_EQ(facts.model, "unknown");
  EXPECT_EQ(facts.isa, "baseline");
  EXPECT_TRUE(facts.bf16_dot);
  EXPECT_TRUE(facts.int8_dot);
  EXPECT_TRUE(facts.fp16_arithmetic);
}

TEST_F(SystemTreeTest, KnowsMatrixExtensions) {
  Write("proc/cpuinfo", "flags\t\t: avx512f amx_bf16 amx_tile amx_int8");
  EXPECT_TRUE(Facts().bf16_dot);
  EXPECT_TRUE(Facts().int8_dot);
  EXPECT_FALSE(Facts().fp16_arithmetic);
}

TEST_F(SystemTreeTest, SaysUnknownWhereNothingIsWritten) {
  const CpuFacts facts = Facts();
  EXPECT_EQ(facts.model, "unknown");
  EXPECT_EQ(facts.logical_cpus, 0);
  EXPECT_THAT(facts.affinity, IsEmpty());
  EXPECT_THAT(facts.caches, IsEmpty());
  EXPECT_EQ(facts.LastLevelCacheBytes(), 0);
  EXPECT_EQ(facts.isa, "baseline");
  EXPECT_FALSE(facts.bf16_dot || facts.int8_dot || facts.fp16_arithmetic);
  EXPECT_EQ(facts.governor, "unknown");
  EXPECT_EQ(facts.huge_pages, "unknown");
  EXPECT_EQ(facts.total_memory_bytes, 0);
  EXPECT_EQ(Available(), 0);
  EXPECT_FALSE(ReadProcessorTime(root_.string()).has_value());
}

TEST_F(SystemTreeTest, SupportsWhatTheFlagsPromise) {
  CpuFacts facts;
  EXPECT_TRUE(facts.Supports(Dtype::kFp32));
  for (const Dtype dtype : {Dtype::kTf32, Dtype::kBf16, Dtype::kFp16, Dtype::kInt8, Dtype::kFp8}) {
    EXPECT_FALSE(facts.Supports(dtype)) << workload::Name(dtype);
  }
  facts.bf16_dot = facts.int8_dot = facts.fp16_arithmetic = true;
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp16, Dtype::kInt8}) {
    EXPECT_TRUE(facts.Supports(dtype)) << workload::Name(dtype);
  }
  for (const Dtype dtype : {Dtype::kTf32, Dtype::kFp8}) EXPECT_FALSE(facts.Supports(dtype)) << workload::Name(dtype);
}

TEST_F(SystemTreeTest, AvailableMemoryWithoutCgroups) {
  WriteMemAvailable(1000);
  EXPECT_EQ(Available(), 1000 * kKibi);
}

TEST_F(SystemTreeTest, CgroupV2LimitLeavesWhatIsNotUsed) {
  WriteMemAvailable(64 * kMebi);
  Write("proc/self/cgroup", "0::/job");
  Write("sys/fs/cgroup/job/memory.max", "4294967296");
  Write("sys/fs/cgroup/job/memory.current", "1073741824");
  EXPECT_EQ(Available(), 3 * kGibi);
  // Page cache that the kernel drops when asked.
  Write("sys/fs/cgroup/job/memory.stat", "anon 1\nfile 2\ninactive_file 536870912");
  EXPECT_EQ(Available(), 3.5 * kGibi);
  Write("sys/fs/cgroup/job/memory.current", "9294967296");
  EXPECT_EQ(Available(), 0);
}

TEST_F(SystemTreeTest, CgroupV2ParentsLimitToo) {
  WriteMemAvailable(64 * kMebi);
  Write("proc/self/cgroup", "0::/pod/container/job");
  Write("sys/fs/cgroup/pod/container/job/memory.max", "max");
  Write("sys/fs/cgroup/pod/container/job/memory.current", "100");
  Write("sys/fs/cgroup/pod/memory.max", "2147483648");
  Write("sys/fs/cgroup/pod/memory.current", "1073741824");
  EXPECT_EQ(Available(), kGibi);
}

TEST_F(SystemTreeTest, CgroupV2WithoutALimit) {
  WriteMemAvailable(1000);
  Write("proc/self/cgroup", "0::/");
  Write("sys/fs/cgroup/memory.max", "max");
  Write("sys/fs/cgroup/memory.current", "100");
  EXPECT_EQ(Available(), 1000 * kKibi);
}

// Inside a container the path names a folder of the host, and the container's limit stands at the mount.
TEST_F(SystemTreeTest, CgroupPathOfTheHost) {
  WriteMemAvailable(64 * kMebi);
  Write("proc/self/cgroup", "0::/system.slice/docker-1234.scope");
  Write("sys/fs/cgroup/memory.max", "1073741824");
  Write("sys/fs/cgroup/memory.current", "536870912");
  EXPECT_EQ(Available(), 0.5 * kGibi);
}

TEST_F(SystemTreeTest, CgroupV1) {
  WriteMemAvailable(64 * kMebi);
  Write("proc/self/cgroup", "9:name=systemd:/\n4:cpuset,memory:/process/1\n1:cpu:/other\n0::/");
  Write("sys/fs/cgroup/memory/process/1/memory.limit_in_bytes", "4294967296");
  Write("sys/fs/cgroup/memory/process/1/memory.usage_in_bytes", "2147483648");
  Write("sys/fs/cgroup/memory/process/1/memory.stat", "inactive_file 1\ntotal_inactive_file 1073741824");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000000");
  EXPECT_EQ(Available(), 3 * kGibi);
}

TEST_F(SystemTreeTest, CgroupV1WithoutALimit) {
  Write("proc/self/cgroup", "4:memory:/");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "100");
  EXPECT_EQ(Available(), 0);  // no source reports the size
  WriteMemAvailable(1000);
  EXPECT_EQ(Available(), 1000 * kKibi);
}

TEST_F(SystemTreeTest, ProcessorTimeIsBusyWithoutIdleAndSteal) {
  Write("proc/stat", "cpu  10 20 30 40 50 60 70 800 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10");
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(ReadProcessorTime(root_.string())->stolen, 800.0 / ticks);
  EXPECT_DOUBLE_EQ(ReadProcessorTime(root_.string())->busy, (10.0 + 20 + 30 + 60 + 70) / ticks);
  Write("proc/stat", "cpu  10 20 30 40 50 60 70\ncpu0 1 2 3 4 5 6 7 8");
  EXPECT_FALSE(ReadProcessorTime(root_.string()).has_value());
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
