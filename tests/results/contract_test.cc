// SPDX-License-Identifier: Apache-2.0
#include "lib/results/contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/results/counters.h"
#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using nlohmann::json;
using testing::ElementsAre;

class ContractTest : public testing::Test {
 protected:
  FakeDevice device_;
  Family family_ = TestFamily(device_, 1e-3);
  json contract_ = json::parse(ContractJson({&family_}));
};

TEST_F(ContractTest, DescribesAFamilyWithItsAxesAndItsGrowth) {
  EXPECT_EQ(contract_["schema"], "roofbench-contract-1");
  EXPECT_EQ(contract_["version"], 1);
  ASSERT_EQ(contract_["families"].size(), 1);
  const json family = contract_["families"][0];
  EXPECT_EQ(family["name"], "test");
  EXPECT_EQ(family["doc"], "adds one");
  EXPECT_EQ(family["cache_default"], "cold");
  EXPECT_EQ(family["growth"], json::parse(R"([{"axis": "n", "exponent": 1.0}])"));
  ASSERT_EQ(family["axes"].size(), 3);
  const json impl = family["axes"][0];
  EXPECT_EQ(impl["kind"], "choice");
  EXPECT_EQ(impl["default"], "good");
  EXPECT_THAT(impl["values"].get<std::vector<std::string>>(), ElementsAre("good", "wrong", "throws", "refuses"));
  const json n = family["axes"][1];
  EXPECT_EQ(n["kind"], "number");
  EXPECT_EQ(n["role"], "size");
  EXPECT_TRUE(n["default"].is_null());
  EXPECT_THAT(n["values"].get<std::vector<std::string>>(), ElementsAre("16", "32", "64", "4096"));
}

TEST_F(ContractTest, ListsTimeAndEveryCounterInTheOrderOfTheTable) {
  std::vector<std::string> names;
  for (const json& counter : contract_["counters"]) names.push_back(counter["name"]);
  std::vector<std::string> expected = {"time"};
  for (const CounterSpec& spec : CounterTable()) expected.emplace_back(spec.name);
  EXPECT_EQ(names, expected);
  const json time = contract_["counters"][0];
  EXPECT_EQ(time["unit"], "s");
  EXPECT_EQ(time["better"], "lower");
  EXPECT_EQ(time["threshold"], 0.01);
  EXPECT_EQ(time["noisy"], true);
}

TEST_F(ContractTest, IsOneLineUnlessIndented) {
  EXPECT_EQ(ContractJson({&family_}).find('\n'), std::string::npos);
  EXPECT_EQ(json::parse(ContractJson({&family_}, 1)), contract_);
}

TEST_F(ContractTest, ASpecialPatternStandsBeforeTheGeneralOne) {
  const auto place = [&](const std::string& name) {
    std::size_t at = 0;
    while (contract_["counters"].at(at)["name"] != name) ++at;
    return at;
  };
  EXPECT_LT(place("predicted_<component>_mem"), place("<component>_mem"));
}

}  // namespace
}  // namespace roofbench
