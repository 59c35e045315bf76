// SPDX-License-Identifier: Apache-2.0
// How far apart the threads of this process run.
//
// Processors of one last-level cache hand a line over within some 60 ns, those of different ones, or of different
// sockets, in several times that. A virtual machine's processors change places within minutes, as its host likes: then
// what threads take to meet changes (near is faster), and so does the bandwidth of memory (apart, each may have the way
// of a cache of its own). On two cores of a Zen 4 (2026-11-29): 60 or 270 ns.
#pragma once

#include <optional>

namespace roofbench::hardware {

// The time in which a line goes from one thread of OpenMP's pool to the next, in a ring of all of them: the median over
// some rounds, within 2 ms. None with one thread, or with more threads than processors.
std::optional<double> HandoverSeconds(int threads);

// Whether two such times are those of two places of the threads, not the scatter of one.
bool AreOfTwoPlaces(double one, double other);

}  // namespace roofbench::hardware
