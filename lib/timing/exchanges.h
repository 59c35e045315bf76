// SPDX-License-Identifier: Apache-2.0
// What changes in the operands of a step from sample to sample, so that a step that keeps results, or recognizes the
// calls that are checked, gives wrong ones: before a sample two pieces of each operand change places, and some single
// elements change places with spare ones; those of the sample before change back. So a kept result is wrong also where
// it does not depend on the order of elements (a sum, a sort), and a step that looks for changed pieces to compute
// those alone misses single elements. The operands keep their distribution, and all but a thousandth of their order, so
// that a sort, or a function of sparse values, takes as long as before; and they stay where they are in the caches.
// Operands that are taken out of the caches anyhow, and have enough elements for many places of such pieces, exchange
// pieces of a third where there is time for that: so a step that brings its last result up to date has as much to do as
// one that begins anew.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace roofbench::timing {

// A number from 0 to below `count`.
inline int64_t Below(int64_t count, std::mt19937_64& random) {
  return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
}

// Where two pieces of that length begin among `count` elements, which are at least twice as many.
struct Places {
  int64_t one = 0;
  int64_t other = 0;
};
Places DrawPlaces(int64_t count, int64_t length, std::mt19937_64& random);

// The length of pieces that are a thousandth of `count` elements: enough for a product or a row's sum to change by more
// than rounding, and so few that a step that knows its operands by some elements most often finds those as they were.
constexpr int64_t FewOf(int64_t count) { return std::max<int64_t>(1, count / 1024); }

// Single elements of `count` that change places with spare ones: so few that the caches hardly notice, and enough for
// a sort of a million to change by more than rounding.
constexpr int64_t SinglesOf(int64_t count) { return std::clamp<int64_t>(count / 1024, 1, 512); }

class Exchanges {
 public:
  // Contiguous memory of `count` elements, two or more, and of spare ones, none or more: other values of its kind.
  struct Operand {
    std::byte* first = nullptr;
    int64_t element_bytes = 0;
    int64_t count = 0;
    std::byte* spare = nullptr;
    int64_t spares = 0;
    // Of those of one array, which follow each other, so many at most take part in a sample: drawn anew for each.
    int64_t array = 0;
  };
  static constexpr int64_t kMostOfArray = 16;
  // Elements of an operand that changed places.
  struct Pair {
    int64_t operand = 0;
    int64_t one = 0;
    int64_t other = 0;  // among the spare ones, if `with_spare`
    int64_t length = 0;
    bool with_spare = false;
  };

  // `share_of_large_pieces`: of the time since the first sample, in which pieces of a third may change places.
  explicit Exchanges(std::vector<Operand> operands, double share_of_large_pieces = 0);

  // Before a sample of so many steps, outside of the timed part: takes back what is in effect, and exchanges anew.
  void Begin(int64_t steps);
  // Before each of its steps, where there are several: exchanges two elements, in a few nanoseconds.
  void Next() {
    if (made_ < pairs_.size()) Make(pairs_[made_++]);
  }
  void TakeBack();
  // In the order in which they were made.
  std::vector<Pair> InEffect() const { return {pairs_.begin(), pairs_.begin() + static_cast<std::ptrdiff_t>(made_)}; }

  // Whether the result of the last sample is to be looked at: at random, less and less often. Call it before Begin.
  bool IsLookDue();

 private:
  Pair Drawn(int64_t operand, int64_t length);
  void Draw(int64_t index, bool large);
  void Make(const Pair& pair);

  std::vector<Operand> operands_;
  double share_of_large_pieces_;
  std::chrono::steady_clock::time_point first_;
  std::chrono::steady_clock::duration spent_{};  // on all exchanges before samples
  std::mt19937_64 random_;
  std::vector<Pair> pairs_;
  std::size_t made_ = 0;  // of pairs_
  int64_t samples_ = 0;
  int64_t next_look_ = 1;
};

}  // namespace roofbench::timing
