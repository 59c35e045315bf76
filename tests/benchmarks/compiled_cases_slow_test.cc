// SPDX-License-Identifier: Apache-2.0
// Programs that Inductor compiles give the families' results. Attention: with a mask and fewer queries than keys, with
// heads that share keys, and for one query a sequence. A decoder: tokens into a cache, and one after others. A
// transformer: its loss and last logits.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "lib/device/cpu_device.h"
#include "tests/base/temp_folder.h"
#include "tests/benchmarks/every_case.h"

namespace roofbench {
namespace {

void ExpectRight(const std::string& name, const AxisValues& axes) {
  // Packages are kept under a hash of all that decides them, and compiling one takes half a minute.
  // ROOFBENCH_TEST_PACKAGES names a folder that outlives this process; CompiledPackage makes its own each time.
  const TempFolder folder;
  const char* const kept = getenv("ROOFBENCH_TEST_PACKAGES");
  setenv("XDG_CACHE_HOME", kept != nullptr ? kept : (folder / "cache").c_str(), 1);
  CpuDevice device(1);
  Case built;
  AxisValues values = axes;
  values.emplace_back("impl", "compiled");
  ASSERT_NO_FATAL_FAILURE(BuildRight(CaseAt(name, values), device, 1, built));
  EXPECT_FALSE(CheckCase(built, {.result = SpoilLastElement}).ok());
}

TEST(CompiledAttention, OfQueriesThatTheMaskLetsSeeSomeKeysIsRight) {
  ExpectRight("attention", {{"dtype", "bf16"},
                            {"mask", "causal"},
                            {"batch", "2"},
                            {"heads", "6"},
                            {"kv_heads", "2"},
                            {"queries", "24"},
                            {"keys", "40"},
                            {"d", "48"}});
}

TEST(CompiledAttention, OfOneQueryIsRight) {
  ExpectRight("decode_attention",
              {{"dtype", "fp32"}, {"batch", "2"}, {"heads", "6"}, {"kv_heads", "2"}, {"keys", "40"}, {"d", "48"}});
}

TEST(CompiledDecoder, OfAPromptIsRight) {
  ExpectRight("prefill", {{"model", "tiny_llama"}, {"precision", "bf16"}, {"batch", "2"}, {"prompt", "12"}});
}

TEST(CompiledDecoder, OfOneTokenIsRight) {
  ExpectRight("decode", {{"model", "tiny_llama"}, {"precision", "int8"}, {"batch", "1"}, {"depth", "20"}});
}

TEST(CompiledTransformer, IsRight) {
  for (const char* dtype : {"fp32", "bf16_autocast"}) {
    ExpectRight("train_step", {{"pass", "inference"},
                               {"dtype", dtype},
                               {"context", "16"},
                               {"batch", "2"},
                               {"vocab", "50"},
                               {"d_model", "32"},
                               {"d_ff", "48"},
                               {"layers", "2"},
                               {"heads", "2"}});
  }
}

}  // namespace
}  // namespace roofbench
