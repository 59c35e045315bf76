// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/hardware/fake_tree.h"

namespace roofbench::hardware {
namespace {

using testing::DoubleNear;
using testing::Optional;

class EnergyTest : public FakeTree {
 protected:
  void Zone(const std::string& folder, const std::string& name, const std::string& microjoules) const {
    const std::string zone = "sys/class/powercap/" + folder;
    Write({{zone + "/name", name}, {zone + "/max_energy_range_uj", "1000000"}, {zone + "/energy_uj", microjoules}});
  }
};

TEST_F(EnergyTest, SumsPackagesAndTheirMemoryOnce) {
  Zone("intel-rapl:0", "package-0", "1000");
  Zone("intel-rapl:0:0", "dram", "500");
  Zone("intel-rapl:0:1", "core", "300");  // a part of the package
  Zone("intel-rapl:1", "package-1", "2000");
  Zone("intel-rapl:2", "psys", "9000");  // all of it again
  Zone("intel-rapl-mmio:0", "package-0", "1000");
  EXPECT_THAT(EnergyCounter(root_).Joules(), Optional(DoubleNear(3.5e-3, 1e-12)));
}

TEST_F(EnergyTest, ACounterThatOverflowsContinues) {
  Zone("intel-rapl:0", "package-0", "999000");
  EnergyCounter counter(root_);
  const double before = counter.Joules().value();
  Zone("intel-rapl:0", "package-0", "2000");
  EXPECT_NEAR(counter.Joules().value() - before, 3e-3, 1e-12);
}

TEST_F(EnergyTest, UncountedOrUnreadableEnergyIsUnknown) {
  EXPECT_EQ(EnergyCounter(root_).Joules(), std::nullopt);
  Zone("intel-rapl:0", "package-0", "1000");
  Zone("intel-rapl:1", "package-1", "");
  EXPECT_EQ(EnergyCounter(root_).Joules(), std::nullopt) << "half of it would be a guess";
}

}  // namespace
}  // namespace roofbench::hardware
