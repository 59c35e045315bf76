// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <numeric>

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

}  // namespace

std::string HumanTime(double seconds) { return Scaled(seconds, {{1e-9, "n"}, {1e-6, "µ"}, {1e-3, "m"}, {1, ""}}, "s"); }

std::string HumanBytes(double bytes) {
  return Scaled(bytes, {{1, ""}, {0x1p10, "Ki"}, {0x1p20, "Mi"}, {0x1p30, "Gi"}, {0x1p40, "Ti"}}, "B");
}

std::string HumanRate(double per_second, std::string_view unit) {
  return Scaled(per_second, {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}}, unit);
}

uint64_t PortableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string FirstLine(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::string LastLine(std::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(View(text), '\n', absl::SkipWhitespace());
  return lines.empty() ? "" : lines.back();
}

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

}  // namespace roofbench
