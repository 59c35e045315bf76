// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/operand_cache.h"

#include <utility>

namespace roofbench {
namespace {

struct Kept {
  std::string key;
  OperandCache::Made made;
  bool is_of_this_case = false;
};

std::string& TheFamily() {
  static auto* family = new std::string();
  return *family;
}

Kept& TheKept() {
  static auto* kept = new Kept();
  return *kept;
}

}  // namespace

absl::StatusOr<OperandCache::Made> OperandCache::Get(const std::string& key,
                                                     const std::function<absl::StatusOr<Made>()>& make) {
  Kept& kept = TheKept();
  if (kept.made.value != nullptr && kept.key == key) {
    if (!kept.is_of_this_case) kept.made.unseen_bytes = kept.made.bytes;
    return kept.made;
  }
  const double freed = kept.made.bytes;
  kept = {};
  absl::StatusOr<Made> made = make();
  if (!made.ok()) return made;
  made->unseen_bytes = freed;
  kept = {key, *made, /*is_of_this_case=*/true};
  return made;
}

void OperandCache::Enter(const std::string& family) {
  if (TheFamily() != family) TheKept() = {};
  TheFamily() = family;
  TheKept().is_of_this_case = false;
}

double OperandCache::bytes() { return TheKept().made.bytes; }

}  // namespace roofbench
