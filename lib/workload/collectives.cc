// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/collectives.h"

#include <cmath>
#include <cstddef>

namespace roofbench::workload {
namespace {

struct Facts {
  std::string_view name;
  double rounds;         // of a ring in which each rank sends all parts of the array but one; 0: it sends the array
  double gloo_rounds;    // the same for Gloo
  double small_arrays;   // operands of a part of the array, unless they lie in the whole
  double whole_arrays;   // operands of its size
  double copied_arrays;  // by LibTorch for Gloo
};

// In the order of the enumeration.
constexpr Facts kFacts[] = {
    {"all_reduce", 2, 2, 0, 1, 0}, {"all_gather", 1, 1, 1, 1, 1}, {"reduce_scatter", 1, 2, 1, 1, 1},
    {"broadcast", 0, 0, 0, 1, 0},  {"all_to_all", 1, 1, 0, 2, 0}, {"send_recv", 0, 0, 0, 2, 0},
};

const Facts& FactsOf(CollectiveKind kind) { return kFacts[static_cast<std::size_t>(kind)]; }

}  // namespace

std::string_view Name(CollectiveKind kind) { return FactsOf(kind).name; }

double Collective::BusBytes() const {
  const double rounds = FactsOf(kind).rounds;
  return array_bytes * (rounds > 0 ? rounds * (ranks - 1) / ranks : 1);
}

double Collective::Messages() const {
  if (kind == CollectiveKind::kBroadcast) return std::ceil(std::log2(ranks));
  const double rounds = FactsOf(kind).rounds;
  return rounds > 0 ? rounds * (ranks - 1) : 1;
}

double Collective::GlooBytes() const {
  // The root sends the array once in each level of the tree.
  if (kind == CollectiveKind::kBroadcast) return array_bytes * Messages();
  const double rounds = FactsOf(kind).gloo_rounds;
  return array_bytes * (rounds > 0 ? rounds * (ranks - 1) / ranks : 1);
}

Cost Collective::GlooCost() const { return CostWith(FactsOf(kind).copied_arrays, GlooBytes()); }

Cost Collective::NcclCost() const { return CostWith(0, 0); }

Cost Collective::CostWith(double copied_arrays, double wire_bytes) const {
  const Facts& facts = FactsOf(kind);
  const double arrays = facts.whole_arrays + copied_arrays + (in_place ? 0 : facts.small_arrays / ranks);
  return {.resident_bytes = arrays * array_bytes,
          .array_bytes = array_bytes,
          .bus_bytes = BusBytes(),
          .wire_bytes = wire_bytes,
          .link_messages = Messages()};
}

}  // namespace roofbench::workload
