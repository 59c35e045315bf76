// SPDX-License-Identifier: Apache-2.0
#include "lib/results/contract.h"

#include "lib/results/counters.h"
#include "lib/suite/describe.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

// Not a counter, but named and compared like one.
constexpr CounterSpec kTime = {"time", "s",    Better::kLower, 0.01, true, "time of a step: the median of its samples",
                               "",     nullptr};

Json CounterJson(const CounterSpec& spec) {
  return {{"name", std::string(spec.name)},
          {"unit", std::string(spec.unit)},
          {"better", std::string(Name(spec.better))},
          {"threshold", spec.threshold},
          {"noisy", spec.noisy},
          {"meaning", std::string(spec.doc)},
          {"absent", std::string(spec.absent)}};
}

}  // namespace

std::string ContractJson(const std::vector<const Family*>& families, int indent) {
  Json contract = {{"schema", "roofbench-contract-1"}, {"version", 1}};
  Json& described = contract["families"] = Json::array();
  for (const Family* family : families) described.push_back(DescribeFamily(*family));
  Json& counters = contract["counters"] = Json::array({CounterJson(kTime)});
  for (const CounterSpec& spec : CounterTable()) counters.push_back(CounterJson(spec));
  return contract.dump(indent);
}

}  // namespace roofbench
