// SPDX-License-Identifier: Apache-2.0
#include "lib/base/display_width.h"

#include <algorithm>

namespace roofbench {
namespace {

bool IsContinuation(char one) { return (static_cast<unsigned char>(one) & 0xC0) == 0x80; }

}  // namespace

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

}  // namespace roofbench
