// SPDX-License-Identifier: Apache-2.0
// The seed of each test is the number of its repetition (--gtest_repeat), counted from the environment variable
// EMULATED_SEED, or from 1.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/emulated/machine.h"

namespace roofbench::emulated {
namespace {

class Seeds : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest& /*all*/, int iteration) override {
    const char* const first = std::getenv("EMULATED_SEED");
    seed_ = static_cast<uint32_t>(iteration + (first == nullptr ? 1 : std::atoi(first)));
  }
  void OnTestStart(const testing::TestInfo& /*test*/) override { Seed(seed_); }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed()) std::cout << "EMULATED_SEED=" << seed_ << " repeats its orders of turns.\n";
  }

  uint32_t seed_ = 0;
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Seeds);
  return true;
}();

}  // namespace
}  // namespace roofbench::emulated
