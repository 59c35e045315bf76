#include "lib/harness/winners.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/harness/text.h"

namespace roofbench {
namespace {

constexpr char kAxis[] = "/impl:";

struct NameParts {
  std::string work;
  std::string implementation;  // empty: the family has one only
};

NameParts Split(const std::string& name) {
  const std::size_t begin = name.find(kAxis);
  if (begin == std::string::npos) return {name, ""};
  const std::size_t value = begin + sizeof(kAxis) - 1;
  const std::size_t end = std::min(name.find('/', value), name.size());
  return {name.substr(0, begin) + name.substr(end), name.substr(value, end - value)};
}

}  // namespace

std::vector<Winner> FindWinners(const std::vector<Contender>& contenders) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Contender*>> groups;
  for (const Contender& contender : contenders) {
    const NameParts parts = Split(contender.name);
    if (parts.implementation.empty() || contender.seconds <= 0) continue;
    std::vector<const Contender*>& group = groups[parts.work];
    if (group.empty()) order.push_back(parts.work);
    group.push_back(&contender);
  }
  std::vector<Winner> winners;
  for (const std::string& work : order) {
    std::vector<const Contender*>& group = groups[work];
    if (group.size() < 2) continue;
    std::stable_sort(group.begin(), group.end(),
                     [](const Contender* a, const Contender* b) { return a->seconds < b->seconds; });
    winners.push_back({.work = work,
                       .implementation = Split(group[0]->name).implementation,
                       .seconds = group[0]->seconds,
                       .roof = group[0]->roof,
                       .runner_up = Split(group[1]->name).implementation,
                       .lead = group[1]->seconds / group[0]->seconds});
  }
  return winners;
}

std::string DescribeWinners(const std::vector<Winner>& winners) {
  if (winners.empty()) return {};
  std::string text = "\nFastest implementation, and what it leaves of the roof\n";
  for (const Winner& w : winners) {
    std::string left = "no roof known";
    if (w.roof) {
      left = *w.roof < 1 ? absl::StrFormat("%.1f%% of the roof, %.1f%% left", 100 * *w.roof, 100 * (1 - *w.roof))
                         : absl::StrFormat("%.1f%% of the roof, nothing left", 100 * *w.roof);
    }
    absl::StrAppend(&text, absl::StrFormat("  %-46s %-8s %9s  %s, %.2fx %s\n", w.work, w.implementation,
                                           HumanTime(w.seconds), left, w.lead, w.runner_up));
  }
  return text;
}

}  // namespace roofbench
