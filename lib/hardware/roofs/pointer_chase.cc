// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/pointer_chase.h"

#include <utility>

#include "lib/kernels/simd/split_mix.h"

namespace roofbench::hardware {
namespace {

// What the first word of a line holds.
const void*& Next(std::byte* line) { return *reinterpret_cast<const void**>(line); }
const void* Next(const void* line) { return *static_cast<const void* const*>(line); }

}  // namespace

PointerChase::PointerChase(std::size_t bytes, Pages pages)
    : memory_(bytes, 1, pages), lines_(static_cast<int64_t>(bytes) / kLineBytes), at_(memory_.data()) {
  for (int64_t line = 0; line < lines_; ++line) Next(Line(line)) = Line(line);
  kernels::SplitMix64 random;
  for (int64_t last = lines_ - 1; last > 0; --last) {
    const auto other = static_cast<int64_t>(random() % static_cast<uint64_t>(last));
    std::swap(Next(Line(last)), Next(Line(other)));
  }
}

void PointerChase::Follow(int64_t loads) {
  const void* at = at_;
#pragma GCC unroll 8
  for (int64_t i = 0; i < loads; ++i) at = Next(at);
  at_ = at;
}

int64_t PointerChase::LineAfter(int64_t loads) const {
  int64_t line = 0;
  for (int64_t i = 0; i < loads % lines_; ++i) line = LineOf(Next(Line(line)));
  return line;
}

int64_t PointerChase::CycleLength() const {
  int64_t length = 1;
  for (int64_t line = LineOf(Next(Line(0))); line != 0; line = LineOf(Next(Line(line)))) ++length;
  return length;
}

}  // namespace roofbench::hardware
