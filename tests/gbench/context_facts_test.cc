// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/context_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(ContextFacts, IsAListOfPairs) {
  const auto facts = ParseContext("rack=7,note=Größe=½");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(*facts, ElementsAre(Pair("rack", "7"), Pair("note", "Größe=½")));
}

}  // namespace
}  // namespace roofbench
