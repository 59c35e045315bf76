// SPDX-License-Identifier: Apache-2.0
// Operations that ranks (the processes of a group) do together: the bytes that their bandwidths are defined by.
#pragma once

#include <string_view>

#include "lib/workload/cost.h"

namespace roofbench::workload {

enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kSendRecv };
std::string_view Name(CollectiveKind kind);  // "all_reduce", …

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double ranks = 2;
  // The whole array's: what all_gather collects and reduce_scatter splits, and one rank's operand of the others.
  double array_bytes = 0;
  bool in_place = false;  // of all_gather and reduce_scatter: the part of a rank lies in the whole array

  // The array times the factor of nccl-tests (doc/PERFORMANCE.md): what each rank has to send, whatever the algorithm,
  // so that rates of different operations and numbers of ranks compare with the speed of a link.
  double BusBytes() const;
  // Messages that a rank sends for that one after the other: along a ring, in pairs, or down a tree.
  double Messages() const;
  // Sent by the busiest rank with Gloo, as LibTorch 2.11 calls it: rings for all_reduce and all_gather, a tree for
  // broadcast, and for reduce_scatter an all_reduce, of which each rank keeps a part.
  double GlooBytes() const;

  // With Gloo. Its memory: operands, and LibTorch's copies of them. No operations: memory does not bound it.
  Cost GlooCost() const;
  // With NCCL, which makes no copies of whole arrays and chooses its algorithm itself: what is sent is not known.
  Cost NcclCost() const;

 private:
  Cost CostWith(double copied_arrays, double wire_bytes) const;
};

}  // namespace roofbench::workload
