// SPDX-License-Identifier: Apache-2.0
// Journals and kept roofs with changes of some of their values or bytes. Each is refused with a reason, or what is read
// is what the unchanged file has, but for the changed lines: no crash, no hang, no figure that cannot be. A seed
// selects the case; ROOFBENCH_FUZZ_ROUNDS sets how many there are.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/files.h"
#include "lib/results/journal.h"
#include "lib/results/journal_line.h"
#include "lib/results/kept_roofs.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

int Rounds() {
  const char* const given = std::getenv("ROOFBENCH_FUZZ_ROUNDS");
  return given == nullptr ? 200 : std::atoi(given);
}

class Mutation {
 public:
  explicit Mutation(uint64_t seed) : bits_(seed) {}

  std::size_t Below(std::size_t count) { return static_cast<std::size_t>(bits_() % count); }

  // A change of one value anywhere in the line, or of some of its bytes.
  std::string Line(const std::string& line) {
    if (Below(3) == 0) return Bytes(line);
    Json json = Json::parse(line);
    Json* node = &json;
    while (node->is_structured() && !node->empty()) {
      auto chosen = node->begin();
      std::advance(chosen, Below(node->size()));
      if (Below(12) == 0) {
        node->erase(chosen);
        return json.dump(-1, ' ', false, Json::error_handler_t::replace);
      }
      node = &*chosen;
    }
    static const Json odd = Json::parse(R"([0, -1, 1, 2, 1e308, -1e308, 5e-324, -0.0, 1.5, 9223372036854775807,
        -9223372036854775808, 18446744073709551615, true, false, null, "", "x", "\u001b[31m", "measured", "failed", "nan",
        "cpu", [], [1, "x"], {}, {"x": 1}, [[[[[[[[[[1]]]]]]]]]], "a\nb", "\u202e"])");
    *node = odd[Below(odd.size())];
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  std::string Bytes(std::string text) {
    for (std::size_t changes = 1 + Below(4); changes > 0 && !text.empty(); --changes) {
      const std::size_t at = Below(text.size());
      switch (Below(5)) {
        case 0:
          text[at] = static_cast<char>(Below(256));
          break;
        case 1:
          text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << Below(8)));
          break;
        case 2:
          text.resize(at);
          break;
        case 3:
          text.insert(at, 1 + Below(9), static_cast<char>(Below(256)));
          break;
        default:
          text.erase(at, 1 + Below(9));
      }
    }
    return text;
  }

 private:
  std::mt19937_64 bits_;
};

const RunIdentity kIdentity = {{"program", "1234"}, {"device", "cpu"}, {"flags", "--seed=1"}};

std::string JournalText() {
  std::string text = JournalHeader(
      {.identity = kIdentity, .context = {{"device_kind", "cpu"}, {"device", "x"}}, .cases = 6, .arguments = {"--a"}});
  for (int i = 0; i < 6; ++i) {
    Outcome outcome;
    outcome.name = absl::StrCat("gelu/n:", 1 << i);
    if (i == 4) outcome.verdict = Verdict::kFailed;
    if (i == 5) outcome.verdict = Verdict::kSkipped;
    if (i >= 4) outcome.reason = "off by 3";
    outcome.samples.seconds = {0.1, 0.3, 1.0 / 3};
    outcome.samples.phase_seconds = {{0.1, 0.2, 0.3}, {0.7, 0.8, 0.9}};
    outcome.phases = {"forward", "backward"};
    outcome.samples.chunks = {{.first_sample = 0, .samples = 3, .median_seconds = 0.3, .roof_rate = 1e9 / 3}};
    outcome.samples.steps_per_sample = 2;
    outcome.summary = timing::Summarize(outcome.samples.seconds);
    outcome.counters = {{"samples", 3}, {"ci", 1.0 / 7}, {"FLOP/s", 1e100 / 3}};
    outcome.roof_name = "memory";
    outcome.roof_ratios = {0.25};
    absl::StrAppend(&text, JournalLine(outcome), "\n");
  }
  return text;
}

TEST(UntrustedFiles, Journals) {
  const TempFolder folder;
  const std::string path = folder / "run.jsonl";
  const std::string whole = JournalText();
  std::set<std::string> known;
  for (const auto line : absl::StrSplit(whole, '\n')) known.insert(std::string(line));
  int refused = 0;
  int resumed = 0;
  for (int round = 0; round < Rounds(); ++round) {
    SCOPED_TRACE(round);
    Mutation mutation(static_cast<uint64_t>(round));
    std::vector<std::string> lines = absl::StrSplit(whole, '\n');
    for (std::size_t changes = 1 + mutation.Below(2); changes > 0; --changes) {
      std::string& line = lines[mutation.Below(lines.size() - 1)];
      line = Json::accept(line) ? mutation.Line(line) : mutation.Bytes(line);
    }
    std::string text;
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) absl::StrAppend(&text, lines[i], "\n");
    if (mutation.Below(8) == 0) text = mutation.Bytes(text);
    std::ofstream(path, std::ios::binary) << text;
    const auto so_far = ReadRunSoFar(path);
    EXPECT_TRUE(so_far.ok() || !so_far.status().message().empty());
    Journal journal{std::chrono::milliseconds(0)};
    const absl::StatusOr<Recorded> recorded = journal.Resume(path, kIdentity, /*doubtful=*/mutation.Below(4) == 0);
    if (!recorded.ok()) {
      ++refused;
      EXPECT_FALSE(recorded.status().message().empty());
      continue;
    }
    ++resumed;
    for (const Outcome& outcome : recorded->outcomes) {
      // What is in memory writes the line that was read.
      const std::string line = JournalLine(outcome);
      const auto again = ParseJournalLine(line);
      ASSERT_TRUE(again.ok()) << again.status() << "\n" << line;
      EXPECT_EQ(JournalLine(*again), line);
      if (outcome.verdict != Verdict::kMeasured) continue;
      EXPECT_TRUE(std::isfinite(outcome.summary.median) && outcome.summary.median > 0) << line;
      EXPECT_FALSE(outcome.samples.seconds.empty()) << line;
      for (const double seconds : outcome.samples.seconds) EXPECT_TRUE(std::isfinite(seconds) && seconds >= 0) << line;
      for (const auto& [name, value] : outcome.counters) EXPECT_TRUE(std::isfinite(value)) << line;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(resumed, 0);
}

TEST(UntrustedFiles, KeptRoofs) {
  const TempFolder folder;
  const RoofConditions here = {
      .version = "1", .revision = "r", .build_type = "b", .kind = "cpu", .name = "fake", .threads = 2, .context = {}};
  const KeptRoofs kept(folder / "", here, "library");
  constexpr double kNow = 1.8e9;
  ASSERT_TRUE(kept.Save({{.roof = "read", .variant = "a", .rate = 1e10, .best = true},
                         {.roof = "fp32", .variant = "b", .rate = 2e11, .best = true, .range = {3, 4}}},
                        kNow, 0.01)
                  .ok());
  const std::string whole = ReadFile(kept.path(), 1 << 20).value();
  int taken = 0;
  int refused = 0;
  for (int round = 0; round < Rounds(); ++round) {
    SCOPED_TRACE(round);
    Mutation mutation(static_cast<uint64_t>(round));
    std::ofstream(kept.path(), std::ios::binary) << mutation.Line(whole);
    const KeptRoofs::Content content = kept.Load(kNow + 60);
    content.readings.empty() ? ++refused : ++taken;
    ASSERT_EQ(content.readings.size(), content.measured.size());
    for (const hardware::RoofReading& reading : content.readings) {
      EXPECT_TRUE(std::isfinite(reading.rate) && reading.rate > 0) << ReadFile(kept.path(), 1 << 20).value();
      EXPECT_TRUE(reading.range.slow >= 0 && reading.range.slow <= reading.range.fast);
    }
    EXPECT_GE(content.age_seconds, 0);
    EXPECT_TRUE(kept.Save(content.readings, kNow + 60, content.other_load).ok()) << "the next run can replace it";
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace roofbench
