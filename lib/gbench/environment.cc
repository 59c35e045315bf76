// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/environment.h"

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

constexpr std::string_view kPrefix = "BENCHMARK_";
constexpr std::size_t kMost = 100;

// Not a container, because it is filled before the C++ library is initialized.
char* taken[kMost];

// Removes the variables from the environment; the strings live as long as the program.
__attribute__((no_sanitize("address", "undefined"))) void Take(int /*argc*/, char** /*argv*/, char** environment) {
  char** kept = environment;
  std::size_t count = 0;
  for (char** entry = environment; *entry != nullptr; ++entry) {
    std::size_t same = 0;
    while (same < kPrefix.size() && (*entry)[same] == kPrefix[same]) ++same;
    if (same == kPrefix.size() && count < kMost) {
      taken[count++] = *entry;
    } else {
      *kept++ = *entry;
    }
  }
  *kept = nullptr;
}

// Runs before the initializers of any library.
__attribute__((section(".preinit_array"), used)) void (*take_first)(int, char**, char**) = Take;

// The value of a removed variable, or of one that the program has set since.
std::string ValueOf(const std::string& name) {
  if (const char* const set = std::getenv(name.c_str()); set != nullptr) return set;
  for (const char* const entry : taken) {
    if (entry == nullptr) break;
    const std::string_view text = entry;
    if (text.size() > name.size() && text[name.size()] == '=' && text.substr(0, name.size()) == name) {
      return std::string(text.substr(name.size() + 1));
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> TakeEnvironmentArguments(const std::vector<std::string>& flags) {
  std::vector<std::string> arguments;
  for (const std::string& flag : flags) {
    const std::string variable = absl::AsciiStrToUpper(flag);
    if (variable.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    if (const std::string value = ValueOf(variable); !value.empty()) {
      arguments.push_back(absl::StrCat("--", flag, "=", value));
    }
    unsetenv(variable.c_str());
  }
  return arguments;
}

}  // namespace roofbench
