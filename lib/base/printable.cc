// SPDX-License-Identifier: Apache-2.0
#include "lib/base/printable.h"

#include <cstddef>

#include "absl/strings/str_format.h"

namespace roofbench {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Codes that a terminal or a reader acts upon and does not show.
constexpr Range kHidden[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x200b, 0x200f}, {0x2028, 0x202e},
                             {0x2060, 0x206f}, {0xd800, 0xdfff}, {0xfeff, 0xfeff}};
constexpr char32_t kLast = 0x10ffff;

// Bytes of the character in front of `text`, which is not empty, by its first byte; 0: none begins with it.
std::size_t LengthOf(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

// Bytes of the visible character in front of `text`, which is not empty; 0: there is none.
std::size_t VisibleLength(std::string_view text) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter ones are no UTF-8
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = LengthOf(first);
  if (length == 0 || length > text.size()) return 0;
  char32_t code = length == 1 ? first : first & (0xffU >> (length + 1));
  for (const char next : text.substr(1, length - 1)) {
    const auto byte = static_cast<unsigned char>(next);
    if ((byte & 0xc0U) != 0x80) return 0;
    code = code << 6 | (byte & 0x3fU);
  }
  if (code < kLeast[length] || code > kLast) return 0;
  for (const Range& range : kHidden) {
    if (code >= range.first && code <= range.last) return 0;
  }
  return length;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = VisibleLength(text);
    if (length == 0) {
      absl::StrAppendFormat(&shown, "\\x%02x", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    } else {
      shown += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return shown;
}

bool IsPrintable(std::string_view text) { return Printable(text) == text; }

}  // namespace roofbench
