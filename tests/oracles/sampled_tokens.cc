// SPDX-License-Identifier: Apache-2.0
// Distributions of the next token, for test_sampling.py.
//
//   sampled_tokens <file of fp32 logits> <draws>
//
// Standard input has a line for each distribution: temperature top_k top_p min_p repetition_penalty, and the tokens of
// the text. The output has a line for each: token:probability:number of draws, …

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "lib/models/generation/sampling.h"

namespace roofbench::models {
namespace {

std::vector<float> ReadLogits(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<float> logits;
  for (float one = 0; file.read(reinterpret_cast<char*>(&one), sizeof(one));) logits.push_back(one);
  return logits;
}

int Print(const std::vector<float>& logits, int draws) {
  kernels::SplitMix64 random(1);
  Candidates candidates;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    SamplingOptions options;
    words >> options.temperature >> options.top_k >> options.top_p >> options.min_p >> options.repetition_penalty;
    if (const absl::Status status = CheckSampling(options); !words || !status.ok()) {
      std::cerr << "'" << line << "': " << status << '\n';
      return 2;
    }
    std::vector<uint8_t> seen(logits.size());
    for (std::size_t token = 0; words >> token;) seen.at(token) = 1;
    Distribution(options, logits.data(), seen, candidates);
    std::map<int64_t, int> drawn;
    for (int i = 0; i < draws; ++i) ++drawn[DrawToken(candidates, random)];
    for (const Candidate& one : candidates) {
      std::printf("%lld:%.17g:%d ", static_cast<long long>(one.token), one.weight, drawn[one.token]);
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace roofbench::models

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return roofbench::models::Print(roofbench::models::ReadLogits(argv[1]), std::stoi(argv[2]));
}
