#include "lib/hardware/isa.h"

#include <gtest/gtest.h>

namespace roofbench::hardware {
namespace {

TEST(Isa, HasNames) {
  EXPECT_EQ(Name(Isa::kBaseline), "baseline");
  EXPECT_EQ(Name(Isa::kAvx2), "avx2");
  EXPECT_EQ(Name(Isa::kAvx512), "avx512");
}

TEST(Isa, IsOrderedByWidth) {
  EXPECT_LT(Isa::kBaseline, Isa::kAvx2);
  EXPECT_LT(Isa::kAvx2, Isa::kAvx512);
}

}  // namespace
}  // namespace roofbench::hardware
