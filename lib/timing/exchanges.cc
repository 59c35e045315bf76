// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/exchanges.h"

#include <algorithm>
#include <utility>

namespace roofbench::timing {
namespace {

// Elements from which on large pieces have so many places that hardly two samples find the same.
constexpr int64_t kFewestOfLarge = 4096;

}  // namespace

Places DrawPlaces(int64_t count, int64_t length, std::mt19937_64& random) {
  const int64_t one = Below(count - 2 * length + 1, random);
  return {one, one + length + Below(count - one - 2 * length + 1, random)};
}

Exchanges::Exchanges(std::vector<Operand> operands, double share_of_large_pieces)
    : operands_(std::move(operands)), share_of_large_pieces_(share_of_large_pieces), random_(std::random_device()()) {}

Exchanges::Pair Exchanges::Drawn(int64_t operand, int64_t length) {
  const Places places = DrawPlaces(operands_[static_cast<std::size_t>(operand)].count, length, random_);
  return {operand, places.one, places.other, length};
}

void Exchanges::Make(const Pair& pair) {
  const Operand& operand = operands_[static_cast<std::size_t>(pair.operand)];
  std::byte* const one = operand.first + pair.one * operand.element_bytes;
  std::byte* const others = pair.with_spare ? operand.spare : operand.first;
  std::swap_ranges(one, one + pair.length * operand.element_bytes, others + pair.other * operand.element_bytes);
}

void Exchanges::Draw(int64_t index, bool large) {
  const Operand& operand = operands_[static_cast<std::size_t>(index)];
  pairs_.push_back(Drawn(index, large && operand.count >= kFewestOfLarge ? operand.count / 3 : FewOf(operand.count)));
  for (int64_t single = 0; operand.spares > 0 && single < SinglesOf(operand.count); ++single) {
    pairs_.push_back({index, Below(operand.count, random_), Below(operand.spares, random_), 1, /*with_spare=*/true});
  }
}

void Exchanges::Begin(int64_t steps) {
  const auto begin = std::chrono::steady_clock::now();
  if (first_ == std::chrono::steady_clock::time_point()) first_ = begin;
  TakeBack();
  const auto operands = static_cast<int64_t>(operands_.size());
  if (operands == 0) return;
  const bool large = share_of_large_pieces_ > 0 && spent_ <= share_of_large_pieces_ * (begin - first_);
  for (int64_t i = 0, next = 0; i < operands; i = next) {
    const auto is_of_other = [&](const Operand& one) {
      return one.array != operands_[static_cast<std::size_t>(i)].array;
    };
    next = std::find_if(operands_.begin() + i, operands_.end(), is_of_other) - operands_.begin();
    const int64_t count = next - i;
    for (int64_t k = 0; k < std::min(count, kMostOfArray); ++k) {
      Draw(count > kMostOfArray ? i + Below(count, random_) : i + k, large);
    }
  }
  while (made_ < pairs_.size()) Next();
  spent_ += std::chrono::steady_clock::now() - begin;
  for (int64_t step = 0; steps > 1 && step < steps; ++step) pairs_.push_back(Drawn(Below(operands, random_), 1));
}

void Exchanges::TakeBack() {
  while (made_ > 0) Make(pairs_[--made_]);
  pairs_.clear();
}

bool Exchanges::IsLookDue() {
  if (samples_++ < next_look_) return false;
  next_look_ = samples_ + 1 + Below(samples_, random_);
  return true;
}

}  // namespace roofbench::timing
