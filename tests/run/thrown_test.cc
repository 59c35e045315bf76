// SPDX-License-Identifier: Apache-2.0
#include "lib/run/thrown.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace roofbench {
namespace {

template <typename Thrown>
absl::Status Caught(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return StatusOfThrown();
  }
}

TEST(StatusOfThrown, AllocatorMessagesMeanExhaustedMemory) {
  EXPECT_EQ(Caught(std::bad_alloc()), absl::ResourceExhaustedError("out of memory"));
  EXPECT_EQ(Caught(std::runtime_error("DefaultCPUAllocator: can't allocate memory: you tried")),
            absl::ResourceExhaustedError("out of memory: DefaultCPUAllocator: can't allocate memory: you tried"));
}

TEST(StatusOfThrown, AProcessorWithoutKernelsIsUnsupported) {
  constexpr char kSaid[] = "mkldnn_reorder_linear_weight: bf16 path needs the cpu support avx_ne_convert or avx512bw";
  EXPECT_EQ(Caught(std::runtime_error(kSaid)), absl::UnimplementedError(kSaid));
}

TEST(StatusOfThrown, AnyOtherExceptionIsOneLine) {
  EXPECT_EQ(Caught(std::logic_error("one\ntwo")), absl::InternalError("one"));
  EXPECT_EQ(Caught(1), absl::InternalError("threw something other than a std::exception"));
  try {
    TORCH_CHECK(false, "a check");
  } catch (...) {
    EXPECT_EQ(StatusOfThrown(), absl::InternalError("a check"));
  }
}

}  // namespace
}  // namespace roofbench
