// A slice of measurement in pieces of about two milliseconds, and their median: a piece during which the scheduler took
// a thread away does not count, just as such a sample of a case does not.
#pragma once

#include <functional>

namespace roofbench::hardware {

struct Rates {
  double wall = 0;  // work a second: the result
  double cpu = 0;   // work a CPU second of the busiest thread: what to expect undisturbed, to plan the next piece by
};

// Runs body(thread) on a team. Together, the threads do `work`.
Rates RunPiece(double work, int threads, const std::function<void(int thread)>& body);

// How many pieces a slice of this length has.
int PiecesIn(double seconds);

// The medians over `pieces` (1 or more) calls.
Rates MedianOfPieces(int pieces, const std::function<Rates()>& run_piece);

}  // namespace roofbench::hardware
