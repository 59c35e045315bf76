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

bool IsContinuation(char one) { return (static_cast<unsigned char>(one) & 0xC0) == 0x80; }

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

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char one) { return !IsContinuation(one); }));
}

std::string PadRight(std::string text, std::size_t width) {
  const std::size_t taken = DisplayWidth(text);
  if (taken < width) text.append(width - taken, ' ');
  return text;
}

std::string PadLeft(std::string text, std::size_t width) {
  const std::size_t taken = DisplayWidth(text);
  if (taken < width) text.insert(0, width - taken, ' ');
  return text;
}

std::string Clipped(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  for (std::size_t taken = 0; at < text.size(); ++at) {
    if (!IsContinuation(text[at]) && taken++ == width) break;
  }
  return std::string(text.substr(0, at));
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
