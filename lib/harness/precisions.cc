#include "lib/harness/precisions.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/harness/text.h"

namespace roofbench {
namespace {

constexpr char kAxis[] = "/precision:";

double CounterOf(const Outcome& outcome, std::string_view name) {
  for (const auto& [key, value] : outcome.counters) {
    if (key == name) return value;
  }
  return 0;
}

}  // namespace

std::optional<Serving> ServingOf(const Outcome& outcome) {
  const std::size_t begin = outcome.name.find(kAxis);
  if (outcome.verdict != Verdict::kMeasured || begin == std::string::npos) return std::nullopt;
  const std::size_t value = begin + sizeof(kAxis) - 1;
  const std::size_t end = std::min(outcome.name.find('/', value), outcome.name.size());
  const Serving serving{.work = outcome.name.substr(0, begin) + outcome.name.substr(end),
                        .precision = outcome.name.substr(value, end - value),
                        .first_token_ms = CounterOf(outcome, "ttft_ms"),
                        .next_token_ms = CounterOf(outcome, "itl_ms"),
                        .next_token_p95_ms = CounterOf(outcome, "itl_p95_ms"),
                        .tokens_per_second = CounterOf(outcome, "tokens/s"),
                        .model_bytes = CounterOf(outcome, "model_bytes")};
  if (serving.next_token_ms <= 0 || serving.tokens_per_second <= 0) return std::nullopt;
  return serving;
}

std::string DescribePrecisions(const std::vector<Serving>& servings) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Serving*>> groups;
  for (const Serving& serving : servings) {
    std::vector<const Serving*>& group = groups[serving.work];
    if (group.empty()) order.push_back(serving.work);
    group.push_back(&serving);
  }
  std::string text;
  for (const std::string& work : order) {
    std::vector<const Serving*>& group = groups[work];
    if (group.size() < 2) continue;
    std::stable_sort(group.begin(), group.end(),
                     [](const Serving* a, const Serving* b) { return a->tokens_per_second > b->tokens_per_second; });
    absl::StrAppend(&text, absl::StrFormat("\n%-46s %11s %11s %9s %10s %10s\n", work, "first token", "next token",
                                           "p95", "tokens/s", "weights"));
    constexpr double kMillisecond = 1e-3;
    for (const Serving* one : group) {
      absl::StrAppend(&text, absl::StrFormat("  %-44s %11s %11s %9s %10.1f %10s\n", one->precision,
                                             HumanTime(one->first_token_ms * kMillisecond),
                                             HumanTime(one->next_token_ms * kMillisecond),
                                             HumanTime(one->next_token_p95_ms * kMillisecond), one->tokens_per_second,
                                             HumanBytes(one->model_bytes)));
    }
    const Serving& best = *group[0];
    const Serving& next = *group[1];
    absl::StrAppend(&text, absl::StrFormat("  fastest here: %s, %.2fx the tokens/s of %s at %.2f of its bytes\n",
                                           best.precision, best.tokens_per_second / next.tokens_per_second,
                                           next.precision, best.model_bytes / next.model_bytes));
  }
  if (text.empty()) return text;
  return absl::StrCat("\nWhich precision to serve in (what it does to the text, the family `complete` shows)\n", text);
}

}  // namespace roofbench
