// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/library_log.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace roofbench::observe {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Lines as oneDNN 3.10.2 and oneMKL 2024.0 print them.
constexpr const char* kPrinted =
    "MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture, Lnx 2.60GHz lp64\n"
    "MKL_VERBOSE SGEMM(N,T,256,128,64,0x7ffe,0x5637,256,0x5637,256,0x7ffe,0x56,256) 3.50ms CNR:OFF Dyn:0 NThr:1\n"
    "onednn_verbose,v1,info,oneDNN v3.10.2 (commit f1d4719)\n"
    "onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,"
    "memory_descriptors,attributes,auxiliary,problem_desc,exec_time\n"
    "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0 "
    "wei:bf16::blocked:ab::f0,attr-scratchpad:user,,256x64:64x8,0.25\n"
    "a line of another program, 7\n"
    "onednn_verbose,v1,123.5,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16,,,256x64:64x8,1.75\n"
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32,,,9x9,0.125\n"
    "MKL_VERBOSE SGEMM_BATCH(N,N,0x7ffe,0x7ffe,0x56) 500.00us CNR:OFF\n"
    "MKL_VERBOSE SGEMM(N,N,4,4,4,0x1) 100ns CNR:OFF\n"
    "MKL_VERBOSE SGEMM(N,N,4\n"
    "onednn_verbose,v1,primitive,exec,cpu,matmul";

TEST(RoutinesIn, AddsUpCallsByRoutineAndProblem) {
  const std::vector<RoutineRow> rows = RoutinesIn(kPrinted, 0.01);
  const auto row = [](const char* library, const char* name, const char* problem, double calls, double total) {
    return AllOf(Field("library", &RoutineRow::library, library), Field("name", &RoutineRow::name, name),
                 Field("problem", &RoutineRow::problem, problem), Field("calls", &RoutineRow::calls, calls),
                 Field("total", &RoutineRow::total, DoubleNear(total, 1e-12)),
                 Field("share", &RoutineRow::share, DoubleNear(total / 0.01, 1e-9)));
  };
  EXPECT_THAT(
      rows, ElementsAre(row("MKL", "SGEMM", "N,T,256,128,64", 1, 3.5e-3),
                        row("oneDNN", "matmul brg_matmul:avx512_core_bf16", "256x64:64x8", 2, 2e-3),
                        row("MKL", "SGEMM_BATCH", "N,N", 1, 5e-4), row("oneDNN", "reorder jit:uni", "9x9", 1, 1.25e-4),
                        row("MKL", "SGEMM", "N,N,4,4,4", 1, 1e-7)));
  EXPECT_EQ(rows[1].mean(), rows[1].total / 2);
}

TEST(RoutinesIn, IgnoresOtherText) {
  EXPECT_THAT(RoutinesIn("", 1), IsEmpty());
  EXPECT_THAT(RoutinesIn("onednn_verbose\nMKL_VERBOSE \nMKL_VERBOSE f) (\n\n,exec,\n", 1), IsEmpty());
}

// LibTorch may have been built without one of the libraries.
TEST(LibraryLog, CapturesTheLibrariesAndForwardsOtherLines) {
  const at::Tensor x = at::rand({32, 32}).to(at::kBFloat16);
  ::testing::internal::CaptureStdout();
  std::string taken;
  {
    const LibraryLog log;
    at::mm(x, x);
    std::printf("a figure of another program\n");
    taken = log.Text();
    EXPECT_EQ(log.Text(), taken);
  }
  at::mm(x, x);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(printed, "a figure of another program\n");
  EXPECT_THAT(taken, HasSubstr("a figure of another program\n"));
  for (const RoutineRow& row : RoutinesIn(taken, 0)) {
    EXPECT_GT(row.total, 0);
    EXPECT_EQ(row.calls, 1);
    EXPECT_EQ(row.share, 0);
  }
}

TEST(LibraryLog, CapturesNothingIfTheEnvironmentRequestsTheOutput) {
  ASSERT_EQ(setenv("MKL_VERBOSE", "0", 1), 0);
  ::testing::internal::CaptureStdout();
  {
    const LibraryLog log;
    std::printf("seen\n");
    EXPECT_EQ(log.Text(), "");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "seen\n");
  ASSERT_EQ(unsetenv("MKL_VERBOSE"), 0);
}

}  // namespace
}  // namespace roofbench::observe
