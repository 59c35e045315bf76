// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace roofbench {
namespace {

struct Prefix {
  double factor;
  std::string_view name;
};

// `value` with three significant digits in the largest unit of `prefixes` (ascending) that keeps it at 1 or above.
std::string Scaled(double value, std::initializer_list<Prefix> prefixes, std::string_view unit) {
  const Prefix* chosen = prefixes.begin();
  for (const Prefix& prefix : prefixes) {
    if (value >= prefix.factor) chosen = &prefix;
  }
  const double scaled = value / chosen->factor;
  const int decimals = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s%s", decimals, scaled, View(chosen->name), View(unit));
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

bool IsContinuation(char one) { return (static_cast<unsigned char>(one) & 0xC0) == 0x80; }

struct Range {
  char32_t first;
  char32_t last;
};

// Code points that a terminal interprets and does not show.
constexpr Range kHidden[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x200b, 0x200f}, {0x2028, 0x202e},
                             {0x2060, 0x206f}, {0xd800, 0xdfff}, {0xfeff, 0xfeff}};
constexpr char32_t kLast = 0x10ffff;

// The length in bytes of a UTF-8 character, from its first byte; 0 if the byte cannot begin one.
std::size_t LengthOf(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

// The length in bytes of the visible character at the start of `text` (not empty); 0 if it does not start with one.
std::size_t VisibleLength(std::string_view text) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // by length; a lower code is an overlong encoding
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

std::string HumanTime(double seconds) { return Scaled(seconds, {{1e-9, "n"}, {1e-6, "µ"}, {1e-3, "m"}, {1, ""}}, "s"); }

std::string HumanBytes(double bytes) {
  return Scaled(bytes, {{1, ""}, {0x1p10, "Ki"}, {0x1p20, "Mi"}, {0x1p30, "Gi"}, {0x1p40, "Ti"}}, "B");
}

std::string HumanRate(double per_second, std::string_view unit) {
  return Scaled(per_second, {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}}, unit);
}

std::string HumanShare(double fraction) {
  return absl::StrFormat("%.*f %%", fraction < 0.0995 ? 2 : 1, 100 * fraction);
}

std::string HumanHalfWidth(double fraction) { return fraction > 1 ? ">100 %" : HumanShare(fraction); }

std::string Counted(std::size_t number, std::string_view noun) {
  return absl::StrCat(number, " ", View(noun), number == 1 ? "" : "s");
}

uint64_t PortableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string FirstLine(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::vector<std::string> Wrapped(const std::vector<std::string>& pieces, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    if (lines.empty() || lines.back().size() + 1 + piece.size() > width) {
      lines.push_back(piece);
    } else {
      absl::StrAppend(&lines.back(), " ", piece);
    }
  }
  return lines;
}

absl::StatusOr<std::vector<int64_t>> ParseNumbers(std::string_view text, std::string_view what) {
  constexpr std::size_t kShown = 40;
  std::vector<int64_t> numbers;
  for (const absl::string_view piece : absl::StrSplit(View(text), absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(piece, &numbers.emplace_back()) || numbers.back() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Excerpt({piece.data(), piece.size()}, kShown), " is not ", View(what), "; expected 1,2,3"));
    }
  }
  return numbers;
}

std::string Nearest(std::string_view text, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t best = text.size() / 3 + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = EditDistance(text, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
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

std::string Excerpt(std::string_view text, std::size_t width) {
  constexpr std::size_t kWidest = 4;  // bytes of a character
  const std::string shown = Printable(text.substr(0, kWidest * width + 1));
  return DisplayWidth(shown) <= width ? shown : Clipped(shown, width) + "…";
}

bool IsPrintable(std::string_view text) { return Printable(text) == text; }

}  // namespace roofbench
