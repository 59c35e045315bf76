// SPDX-License-Identifier: Apache-2.0
// Invariants of every registered family: stable names, checks that can fail, builds that repeat.

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/cases/point.h"
#include "lib/device/cpu_device.h"
#include "lib/run/session.h"
#include "lib/suite/family.h"
#include "tests/benchmarks/compact.h"
#include "tests/benchmarks/every_case.h"
#include "tests/benchmarks/small_points.h"
#include "tests/source_dir.h"

namespace roofbench {
namespace {

const std::string kGolden = SourceDir() + "/tests/golden/case_names.txt";

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const Family& family : Families()) {
    for (const Point& point : family.Points()) names.push_back(point.Name());
  }
  return names;
}

// The names of a line of Compact's.
std::vector<std::string> Expanded(const std::string& line) {
  std::vector<std::string> names = {""};
  bool in_braces = false;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(line, absl::ByAnyChar("{}")))) {
    const std::vector<std::string> values =
        in_braces ? std::vector<std::string>(absl::StrSplit(part, ',')) : std::vector{part};
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& value : values) longer.push_back(name + value);
    }
    names = std::move(longer);
    in_braces = !in_braces;
  }
  return names;
}

// Lines for the names in `of` that are not in `without`.
std::string Beyond(const std::vector<std::string>& of, const std::vector<std::string>& without) {
  const std::set<std::string> known(without.begin(), without.end());
  std::vector<std::string> names;
  std::ranges::copy_if(of, std::back_inserter(names), [&](const std::string& name) { return !known.contains(name); });
  return absl::StrJoin(Compact(names), "\n");
}

// The name is the key of a case's history: a change cuts a series off. New names are welcome.
TEST(Registry, NamesAreThoseOfTheGoldenList) {
  const std::vector<std::string> names = AllNames();
  if (std::getenv("ROOFBENCH_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kGolden) << absl::StrJoin(Compact(names), "\n") << '\n';
  }
  std::ifstream file(kGolden);
  std::vector<std::string> golden;
  for (std::string line; std::getline(file, line);) std::ranges::copy(Expanded(line), std::back_inserter(golden));
  EXPECT_EQ(Beyond(golden, names), "") << "these cases are gone: a history ends with each";
  EXPECT_EQ(Beyond(names, golden), "")
      << "these cases are new; if they are meant to be: ROOFBENCH_UPDATE_GOLDEN=1 build/release/bin/benchmarks_test "
         "--gtest_filter='Registry*'";
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size()) << "a name occurs twice";
}

TEST(Registry, NamesAreShort) {
  for (const std::string& name : AllNames()) EXPECT_LT(name.size(), 90) << name;
}

TEST(Registry, EveryGrowthNamesASizeOfItsFamily) {
  for (const Family& family : Families()) {
    const Point point = family.Points().front();
    for (const ExpectedGrowth& growth : family.growth()) EXPECT_GT(point.Number(growth.axis), 0) << family.name();
  }
}

// A filter by the family's name must match the case that the docs call the default.
TEST(Registry, EveryFamilyHasCasesOfItsDefaultImplementation) {
  for (const Family& family : Families()) {
    for (const AxisSpec& axis : family.axes()) {
      if (axis.name != kImplAxis || axis.default_value.empty()) continue;
      const std::vector<Point> points = family.Points();
      EXPECT_TRUE(std::any_of(points.begin(), points.end(), [&](const Point& point) {
        return point.Text(kImplAxis) == axis.default_value;
      })) << family.name();
    }
  }
}

// Cold cases rotate over copies of sixteen times the last-level cache, which at these sizes would be thousands:
// building them would take minutes and prove nothing more than a few do.
class SmallCacheDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  double LastLevelCacheBytes() const override { return 4096; }
};

class EveryCase : public testing::TestWithParam<PlannedCase> {
 protected:
  static CpuDevice& Device() {
    static auto* device = new SmallCacheDevice(2);
    return *device;
  }
  static RunOptions Quick() {
    RunOptions options;
    options.reference = "a100-sxm4-40gb";
    options.sampling.max_samples = 3;
    options.sampling.min_samples = 1;
    options.sampling.exact_samples = true;
    options.sampling.warmup_iters = 1;
    return options;
  }
};

// Collects LibTorch's warnings on this thread, such as a norm whose weight has another type than its input.
class HeardWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

TEST_P(EveryCase, IsRightAndItsCheckFindsFaults) {
  HeardWarnings heard;
  const c10::WarningUtils::WarnAlways every_time;
  const c10::WarningUtils::WarningHandlerGuard guard(&heard);
  if (!IsRightTwice(GetParam(), Quick(), Device())) return;
  EXPECT_THAT(heard.texts, testing::IsEmpty()) << "users would see these, and would not run this case as it is";
  ExpectFaultsFoundAndClonesAlike(GetParam(), Quick(), Device());
}

INSTANTIATE_TEST_SUITE_P(Families, EveryCase, testing::ValuesIn(SmallPoints()), TestNameOf);

}  // namespace
}  // namespace roofbench
