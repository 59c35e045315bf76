// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters/layout.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

constexpr std::size_t kUsual = 120;  // of a file or a pipe, which have no width
constexpr std::size_t kLeast = 40;   // below it nothing is readable anyway

}  // namespace

std::size_t TerminalWidth(int file) {
  std::size_t width = 0;
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && absl::SimpleAtoi(columns, &width)) {
    if (width > 0) return std::max(kLeast, width);
  }
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return std::max<std::size_t>(kLeast, size.ws_col);
  return kUsual;
}

std::vector<std::string> NameLines(std::string name, std::size_t width, std::string_view indent) {
  std::vector<std::string> lines;
  while (DisplayWidth(name) > width) {
    const std::size_t most = Clipped(name, width).size();
    std::size_t cut = name.rfind('/', most);
    if (cut == std::string::npos || cut <= indent.size()) cut = most;
    lines.push_back(name.substr(0, cut));
    name = absl::StrCat(View(indent), name.substr(cut));
  }
  lines.push_back(std::move(name));
  return lines;
}

}  // namespace roofbench
