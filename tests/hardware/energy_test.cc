// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace roofbench::hardware {
namespace {

using testing::DoubleNear;
using testing::Optional;

class EnergyTest : public testing::Test {
 protected:
  EnergyTest() {
    std::string name = (std::filesystem::temp_directory_path() / "energy_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~EnergyTest() override { std::filesystem::remove_all(root_); }

  void Zone(const std::string& folder, const std::string& name, const std::string& microjoules) {
    const std::filesystem::path path = root_ / "sys/class/powercap" / folder;
    std::filesystem::create_directories(path);
    std::ofstream(path / "name") << name << '\n';
    std::ofstream(path / "max_energy_range_uj") << "1000000\n";
    std::ofstream(path / "energy_uj") << microjoules << '\n';
  }

  std::filesystem::path root_;
};

TEST_F(EnergyTest, SumsPackagesAndTheirMemoryOnce) {
  Zone("intel-rapl:0", "package-0", "1000");
  Zone("intel-rapl:0:0", "dram", "500");
  Zone("intel-rapl:0:1", "core", "300");  // a part of the package
  Zone("intel-rapl:1", "package-1", "2000");
  Zone("intel-rapl:2", "psys", "9000");  // all of it again
  Zone("intel-rapl-mmio:0", "package-0", "1000");
  EXPECT_THAT(EnergyCounter(root_.string()).Joules(), Optional(DoubleNear(3.5e-3, 1e-12)));
}

TEST_F(EnergyTest, ACounterThatStartsAnewGoesOn) {
  Zone("intel-rapl:0", "package-0", "999000");
  EnergyCounter counter(root_.string());
  const double before = counter.Joules().value();
  Zone("intel-rapl:0", "package-0", "2000");
  EXPECT_NEAR(counter.Joules().value() - before, 3e-3, 1e-12);
}

TEST_F(EnergyTest, WhatIsNotCountedOrNotReadableIsUnknown) {
  EXPECT_EQ(EnergyCounter(root_.string()).Joules(), std::nullopt);
  Zone("intel-rapl:0", "package-0", "1000");
  Zone("intel-rapl:1", "package-1", "");
  EXPECT_EQ(EnergyCounter(root_.string()).Joules(), std::nullopt) << "half of it would be a guess";
}

}  // namespace
}  // namespace roofbench::hardware
