// SPDX-License-Identifier: Apache-2.0
// SplitMix64 (Steele, Lea and Flood 2014): reproducible pseudo-random numbers with random access to the sequence.
#pragma once

#include <cstdint>

namespace roofbench::kernels {

class SplitMix64 {
 public:
  constexpr explicit SplitMix64(uint64_t state = 0) : state_(state) {}
  constexpr uint64_t operator()() { return Mix(state_ += kStep); }

  // Number `index`, from 0, of the sequence from state 0.
  static constexpr uint64_t At(uint64_t index) { return Mix((index + 1) * kStep); }

  static constexpr uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t state_;
};

}  // namespace roofbench::kernels
