// SPDX-License-Identifier: Apache-2.0
// Which experts of a mixture take which tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace roofbench::models {

// A slot is a pair of a token and an expert that it goes to. Those of an expert lie side by side, in the order of their
// tokens. It allocates when it is made and never again.
class ExpertPlan {
 public:
  // For `tokens` tokens at most. Each goes to `active` of the experts. With one expert, which all take, there is
  // nothing to choose.
  ExpertPlan(int64_t tokens, int64_t experts, int64_t active);

  // Where the router's logits of one token come.
  std::span<float> logits() { return logits_; }
  // The experts of a token, all of them different: those with the largest logits, weighted by the softmax over them.
  // Logits that are not finite make weights that are none.
  void Choose(int64_t token);
  // After Choose for each of the first `tokens` tokens: these take part.
  void Assign(int64_t tokens);

  int64_t begin(int64_t expert) const { return begins_[static_cast<std::size_t>(expert)]; }  // its first slot
  int64_t count(int64_t expert) const { return begin(expert + 1) - begin(expert); }
  int64_t token(int64_t slot) const { return tokens_[static_cast<std::size_t>(slot)]; }
  float weight(int64_t slot) const { return weights_[static_cast<std::size_t>(slot)]; }

 private:
  const int64_t active_;
  std::vector<float> logits_;                      // [experts]
  std::vector<char> is_taken_;                     // [experts], by the token that chooses
  std::vector<std::pair<int64_t, float>> chosen_;  // [tokens · active]: expert and weight
  std::vector<int64_t> begins_;                    // [experts + 1]
  std::vector<int64_t> tokens_;                    // of each slot
  std::vector<float> weights_;                     // of each slot
};

}  // namespace roofbench::models
