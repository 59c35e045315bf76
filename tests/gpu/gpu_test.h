// SPDX-License-Identifier: Apache-2.0
// The GPU under test, or the reason why it is missing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "lib/cli/options.h"
#include "lib/device/device.h"
#include "lib/device/gpu.h"

namespace roofbench {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Opened().ok()) GTEST_SKIP() << std::string(Opened().status().message());
  }
  void TearDown() override {
    if (Opened().ok()) device().AfterCase();
  }

  static Device& device() { return **Opened(); }
  static Gpu& gpu() { return *device().gpu(); }

  static RunOptions Few() {
    RunOptions options;
    options.reference = "a100-sxm4-40gb";
    options.unverified = true;  // these tests verify the kernels
    options.sampling.max_samples = 20;
    options.sampling.min_samples = 5;
    options.sampling.warmup_iters = 2;
    return options;
  }

 private:
  // Shared by all tests: a context on a GPU takes a second.
  static absl::StatusOr<std::unique_ptr<Device>>& Opened() {
    static auto* opened = new absl::StatusOr<std::unique_ptr<Device>>(OpenDevice("cuda", 0));
    return *opened;
  }
};

}  // namespace roofbench
