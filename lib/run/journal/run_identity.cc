// SPDX-License-Identifier: Apache-2.0
#include "lib/run/journal/run_identity.h"

#include <array>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace roofbench {
namespace {

std::string ValueOf(const RunIdentity& identity, const std::string& name) {
  for (const auto& [key, value] : identity) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> HashOfFile(const std::string& path) {
  // FNV-1a over eight-byte words, because a binary with sanitizers has a hundred megabytes.
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::array<char, 1 << 16> block{};
  while (file.read(block.data(), block.size()), file.gcount() > 0) {
    const auto length = static_cast<std::size_t>(file.gcount());
    for (std::size_t i = 0; i < length; i += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, block.data() + i, std::min(sizeof(word), length - i));
      hash = (hash ^ word) * kPrime;
      hash ^= hash >> 32;  // a product alone carries nothing into lower bits
    }
  }
  return absl::StrFormat("%016x", hash);
}

absl::StatusOr<RunIdentity> IdentityOf(const RunOptions& options, const Device& device) {
  absl::StatusOr<std::string> program = HashOfFile("/proc/self/exe");
  if (!program.ok()) return program.status();
  return RunIdentity{
      {"program", *std::move(program)},
      {"device", absl::StrCat(device.kind(), ", ", device.name(), ", ", device.threads(), " threads")},
      {"flags", absl::StrJoin(options.measuring_flags, " ")},
  };
}

absl::Status SameRun(const RunIdentity& recorded, const RunIdentity& now) {
  for (const auto& [name, value] : now) {
    const std::string before = ValueOf(recorded, name);
    if (before != value) {
      return absl::FailedPreconditionError(
          absl::StrCat("is of another run: its ", name, " was '", before, "' and is now '", value, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace roofbench
