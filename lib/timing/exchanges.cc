// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/exchanges.h"

#include <algorithm>
#include <utility>

namespace roofbench::timing {
namespace {

// Of an operand, in each of the two pieces: enough for a product or a row's sum to change by more than rounding.
constexpr int64_t kPart = 1024;

}  // namespace

Exchanges::Exchanges(std::vector<Operand> operands) : operands_(std::move(operands)), random_(std::random_device()()) {}

Exchanges::Pair Exchanges::Drawn(int64_t operand, int64_t length) {
  const int64_t count = operands_[static_cast<std::size_t>(operand)].count;
  const int64_t one = Below(count - 2 * length + 1);
  return {operand, one, one + length + Below(count - one - 2 * length + 1), length};
}

void Exchanges::Make(const Pair& pair) {
  const Operand& operand = operands_[static_cast<std::size_t>(pair.operand)];
  std::byte* const one = operand.first + pair.one * operand.element_bytes;
  std::swap_ranges(one, one + pair.length * operand.element_bytes, operand.first + pair.other * operand.element_bytes);
}

void Exchanges::Begin(int64_t steps) {
  TakeBack();
  const auto operands = static_cast<int64_t>(operands_.size());
  if (operands == 0) return;
  for (int64_t i = 0; i < operands; ++i) {
    pairs_.push_back(Drawn(i, std::max<int64_t>(1, operands_[static_cast<std::size_t>(i)].count / kPart)));
    Next();
  }
  for (int64_t step = 0; steps > 1 && step < steps; ++step) pairs_.push_back(Drawn(Below(operands), 1));
}

void Exchanges::TakeBack() {
  while (made_ > 0) Make(pairs_[--made_]);
  pairs_.clear();
}

bool Exchanges::IsLookDue() {
  if (samples_++ < next_look_) return false;
  next_look_ = samples_ + 1 + Below(samples_);
  return true;
}

}  // namespace roofbench::timing
