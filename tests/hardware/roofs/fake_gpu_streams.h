// SPDX-License-Identifier: Apache-2.0
// GPU streams on the host's memory: they produce correct results, in the time that a test gives them.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "lib/hardware/roofs/gpu_streams.h"

namespace roofbench::hardware {

class FakeGpuStreams : public GpuStreams {
 public:
  ~FakeGpuStreams() override { EXPECT_TRUE(blocks_.empty()) << "memory of the device was not given back"; }

  std::span<const std::string_view> variants() const override { return kVariants; }

  std::byte* Allocate(std::size_t bytes) override {
    asked.push_back(static_cast<double>(bytes));
    if (static_cast<double>(bytes) > free_bytes) return nullptr;
    free_bytes -= static_cast<double>(bytes);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
    blocks_[memory] = bytes;
    return memory;
  }
  void Free(std::byte* memory) override {
    ASSERT_EQ(blocks_.count(memory), 1);
    free_bytes += static_cast<double>(blocks_[memory]);
    blocks_.erase(memory);
    std::free(memory);
  }
  void Upload(std::byte* to, std::span<const uint64_t> words) override {
    std::memcpy(to, words.data(), words.size_bytes());
  }
  void Download(std::span<uint64_t> words, const std::byte* from) override {
    std::memcpy(words.data(), from, words.size_bytes());
  }

  void Enqueue(const GpuPass& pass) override {
    EXPECT_EQ(pass.bytes % 64, 0);
    EXPECT_GT(pass.bytes, 0);
    EXPECT_TRUE(Holds(pass.to, pass.kind == StreamKind::kRead ? 8 : pass.bytes));
    EXPECT_TRUE(pass.kind == StreamKind::kUpdate || pass.kind == StreamKind::kWrite || Holds(pass.from, pass.bytes));
    passes.push_back(pass);
    if (!compute_) return;
    if (enqueued) return enqueued(pass);
    auto* to = reinterpret_cast<uint64_t*>(pass.to);
    const auto* from = reinterpret_cast<const uint64_t*>(pass.from);
    for (int round = 0; round < pass.repeat; ++round) {
      for (std::size_t i = 0; i < pass.bytes / 8 - (pass.kind == broken ? 1 : 0); ++i) {
        if (pass.kind == StreamKind::kRead) *to += from[i];
        if (pass.kind == StreamKind::kCopy) to[i] = from[i];
        if (pass.kind == StreamKind::kUpdate) ++to[i];
        if (pass.kind == StreamKind::kWrite) to[i] = kWritePattern;
      }
    }
  }

  double Seconds(std::span<const GpuPass> all) override {
    double seconds = 0;
    for (const GpuPass& pass : all) {
      compute_ = false;  // the result of a timed pass is never read
      Enqueue(pass);
      compute_ = true;
      const double rate = rates[static_cast<std::size_t>(pass.kind)] * (pass.variant == 1 ? streaming_gain : 1) *
                          (pass.repeat > 1 ? cache_gain : 1);
      seconds += pass.repeat * StreamTraffic(pass.kind, static_cast<double>(pass.bytes)) / rate;
    }
    busy += seconds;
    return seconds;
  }

  static constexpr std::array<std::string_view, 2> kVariants = {"plain", "streaming"};
  std::array<double, 4> rates = {4e9, 3e9, 3.5e9, 2e9};  // of the traffic, by kind: small, for small buffers
  double streaming_gain = 1.1;
  double cache_gain = 3;  // of passes that are repeated
  double free_bytes = 1e9;
  std::optional<StreamKind> broken;  // leaves its last word out
  std::vector<GpuPass> passes;
  std::function<void(const GpuPass&)> enqueued;  // called for each untimed pass, in place of its work
  std::vector<double> asked;                     // bytes of each buffer that was asked for
  double busy = 0;                               // seconds of all timed passes

 private:
  bool compute_ = true;
  bool Holds(const std::byte* at, std::size_t bytes) const {
    for (const auto& [memory, size] : blocks_) {
      if (at >= memory && at + bytes <= memory + size) return true;
    }
    return false;
  }
  std::map<std::byte*, std::size_t> blocks_;
};

}  // namespace roofbench::hardware
