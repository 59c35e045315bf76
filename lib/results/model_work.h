// SPDX-License-Identifier: Apache-2.0
// The work of published models, for readers that hold it against the roofs of a machine.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace roofbench {

// A row for each step of each model: a token after a prompt of 512 tokens, in each format of weights; that prompt; and
// a training step of 4 sequences of 128 tokens, in each type of its products.
nlohmann::ordered_json DescribeModelWork();

}  // namespace roofbench
