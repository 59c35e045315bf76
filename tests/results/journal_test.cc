// SPDX-License-Identifier: Apache-2.0
#include "lib/results/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lib/results/journal_line.h"
#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

const RunIdentity kIdentity = {{"program", "1234"}, {"device", "cpu"}, {"flags", "--seed=1"}};
const RunFacts kFacts = {{"roofbench_version", "0"}, {"device_kind", "cpu"}, {"device", "x"}};

Outcome Measured(const std::string& name, int repetition = 0) {
  Outcome outcome;
  outcome.name = name;
  outcome.repetition = repetition;
  // Figures without a finite binary form: the bits must survive a round trip.
  outcome.samples.seconds = {0.1, 0.3, 1.0 / 3};
  outcome.samples.phase_seconds = {{0.1 / 3, 0.2, 0.3}, {0.7, 0.8, 0.9}};
  outcome.phases = {"forward", "backward"};
  outcome.samples.chunks = {{.first_sample = 0, .samples = 3, .median_seconds = 0.3, .roof_rate = 1e9 / 3}};
  outcome.samples.cpu_seconds_per_step = 2.0 / 7;
  outcome.samples.stop = timing::StopReason::kMaxTime;
  outcome.samples.warmup_steps = 7;
  outcome.samples.steps_per_sample = 2;
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.counters = {{"samples", 3}, {"ci", 1.0 / 7}, {"FLOP/s", 1e100 / 3}};
  outcome.roof_name = "memory";
  outcome.roof_ratios = {0.25, 1.0 / 9};
  outcome.text = "1,2,3";
  return outcome;
}

Outcome Failed(const std::string& name, const std::string& reason) {
  Outcome outcome;
  outcome.name = name;
  outcome.verdict = Verdict::kFailed;
  outcome.reason = reason;
  return outcome;
}

// The members of an object.
std::string Many(int members) {
  std::string text;
  for (int i = 0; i < members; ++i) absl::StrAppend(&text, "\"x", i, "\":0,");
  return text;
}

class JournalTest : public testing::Test {
 protected:
  void Fill(const std::vector<Outcome>& outcomes) {
    Journal journal;
    ASSERT_TRUE(journal.Create(path_, {kIdentity, kFacts}).ok());
    for (const Outcome& outcome : outcomes) ASSERT_TRUE(journal.Append(outcome).ok());
  }
  absl::StatusOr<Recorded> Resume(const RunIdentity& identity = kIdentity) {
    Journal journal{std::chrono::milliseconds(0)};
    return journal.Resume(path_, identity);
  }
  std::string Refusal(const RunIdentity& identity = kIdentity) {
    const auto recorded = Resume(identity);
    EXPECT_FALSE(recorded.ok());
    return std::string(recorded.status().message());
  }

  TempFolder folder_;
  std::string path_ = folder_ / "run.jsonl";
};

TEST_F(JournalTest, RestoresEveryFigure) {
  Outcome failed = Failed("b", "no \"good\"\n\xff");
  failed.samples.seconds = {0.1, 1.0 / 3};  // before it failed
  Fill({Measured("a"), Measured("a", 1), failed});
  const auto recorded = Resume();
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(recorded->context, kFacts);
  EXPECT_THAT(recorded->notes, testing::ElementsAre(HasSubstr("continuing after 3 finished cases of ")));
  ASSERT_THAT(recorded->outcomes, SizeIs(3));
  const Outcome wanted = Measured("a", 1);
  const Outcome& got = recorded->outcomes[1];
  EXPECT_EQ(got.repetition, 1);
  EXPECT_EQ(got.verdict, Verdict::kMeasured);
  EXPECT_EQ(got.samples.seconds, wanted.samples.seconds);
  EXPECT_EQ(got.samples.phase_seconds, wanted.samples.phase_seconds);
  EXPECT_EQ(got.phases, wanted.phases);
  EXPECT_EQ(got.samples.cpu_seconds_per_step, wanted.samples.cpu_seconds_per_step);
  EXPECT_EQ(got.samples.stop, wanted.samples.stop);
  EXPECT_EQ(got.summary.median, wanted.summary.median);
  EXPECT_EQ(got.counters, wanted.counters);
  EXPECT_EQ(got.text, "1,2,3");
  EXPECT_EQ(got.roof_ratios, wanted.roof_ratios);
  EXPECT_EQ(JournalLine(got).substr(0, 40), JournalLine(wanted).substr(0, 40));
  EXPECT_EQ(recorded->outcomes[2].verdict, Verdict::kFailed);
  EXPECT_THAT(recorded->outcomes[2].reason, HasSubstr("no \"good\"\n"));
  EXPECT_EQ(recorded->outcomes[2].samples.seconds, failed.samples.seconds);
}

TEST_F(JournalTest, EveryCutOfTheLastLineIsDroppedWithANote) {
  Fill({Measured("a"), Measured("b")});
  const std::string whole = ReadText(path_);
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t length = last + 1; length < whole.size(); length += 37) {
    std::ofstream(path_) << whole.substr(0, length);
    Journal journal;
    const auto recorded = journal.Resume(path_, kIdentity);
    ASSERT_TRUE(recorded.ok()) << recorded.status();
    EXPECT_THAT(recorded->outcomes, SizeIs(1));
    EXPECT_THAT(recorded->notes, testing::ElementsAre(HasSubstr("was cut off"), HasSubstr("after 1 finished case of")));
    ASSERT_TRUE(journal.Append(Measured("b")).ok());
    EXPECT_EQ(ReadText(path_), whole);
  }
}

TEST_F(JournalTest, CasesInDoubtRunAgainWhereThatIsAskedFor) {
  Outcome noisy = Measured("b");
  noisy.noise = {"ci"};
  Outcome disturbed = Measured("c");
  disturbed.counters.emplace_back("disturbed", 1);
  Outcome throttled = Measured("e");
  throttled.counters.emplace_back("throttled", 1);
  Fill({Measured("a"), noisy, disturbed, Failed("d", "broke"), throttled});
  const std::string before = ReadText(path_);
  ASSERT_THAT(Resume()->outcomes, SizeIs(5));
  Journal journal;
  const auto recorded = journal.Resume(path_, kIdentity, /*doubtful=*/true);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  ASSERT_THAT(recorded->outcomes, SizeIs(2));
  EXPECT_EQ(recorded->outcomes[0].name, "a");
  EXPECT_EQ(recorded->outcomes[1].name, "d");
  EXPECT_THAT(recorded->notes,
              testing::ElementsAre(HasSubstr("3 measured cases"), HasSubstr("after 2 finished cases")));
  EXPECT_EQ(ReadText(path_ + ".previous"), before) << "what was measured is kept";
  ASSERT_TRUE(journal.Append(Measured("b")).ok());
  ASSERT_TRUE(journal.Append(Measured("c")).ok());
  EXPECT_THAT(journal.Resume(path_, kIdentity, /*doubtful=*/true)->outcomes, SizeIs(4));
}

TEST_F(JournalTest, InterruptedCasesRunAgain) {
  Outcome cut = Measured("b");
  cut.samples.stop = timing::StopReason::kInterrupted;
  Outcome never = Failed("c", "interrupted before it ran");
  never.verdict = Verdict::kInterrupted;
  Fill({Measured("a"), cut, never});
  const auto recorded = Resume();
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_THAT(recorded->outcomes, SizeIs(1));
  EXPECT_THAT(ReadText(path_), testing::Not(HasSubstr("\"b\""))) << "or it would be there twice";
}

TEST_F(JournalTest, ARunIsCompleteWhenAllCasesAreFinished) {
  const RunHeader header = {.identity = kIdentity, .context = kFacts, .cases = 2, .arguments = {"--seed=1"}};
  Journal journal;
  ASSERT_TRUE(journal.Create(path_, header).ok());
  const auto finished = [this] {
    const auto run = ReadRunSoFar(path_);
    EXPECT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->is_complete(), run->finished == 2);
    EXPECT_THAT(run->arguments, testing::ElementsAre("--seed=1"));
    return run->finished;
  };
  EXPECT_EQ(finished(), 0);
  ASSERT_TRUE(journal.Append(Failed("a", R"("stop":"interrupted")")).ok());
  EXPECT_EQ(finished(), 1);
  Outcome cut = Measured("b");
  cut.samples.stop = timing::StopReason::kInterrupted;
  Outcome never = Failed("c", "interrupted before it ran");
  never.verdict = Verdict::kInterrupted;
  for (const Outcome& outcome : {cut, never}) ASSERT_TRUE(journal.Append(outcome).ok());
  EXPECT_EQ(finished(), 1);
  ASSERT_TRUE(journal.AppendLine(JournalLine(Measured("b"))).ok());
  EXPECT_EQ(finished(), 2);

  std::ofstream(path_) << R"({"schema":"roofbench-journal-1","cases":"two"})" << '\n';
  EXPECT_THAT(std::string(ReadRunSoFar(path_).status().message()), HasSubstr("has a damaged header"));
  std::ofstream(path_) << "{}\n";
  EXPECT_THAT(std::string(ReadRunSoFar(path_).status().message()), HasSubstr("is not a journal"));
}

TEST_F(JournalTest, TheJournalOfAnotherRunIsRefused) {
  Fill({Measured("a")});
  RunIdentity other = kIdentity;
  other[2].second = "--seed=2";
  EXPECT_THAT(Refusal(other), AllOf(HasSubstr(path_), HasSubstr("--seed=1"), HasSubstr("another --journal")));
}

TEST_F(JournalTest, AnyOtherFileIsRefusedAndKept) {
  for (const char* text : {"hello\n", "{\"benchmarks\":[]}\n", "{\"schema\":\"other-1\",\"context\":{}}\n", "[1]\n"}) {
    std::ofstream(path_) << text;
    EXPECT_THAT(Refusal(), HasSubstr("is not a journal of roofbench"));
    Journal journal;
    EXPECT_THAT(std::string(journal.Create(path_, {kIdentity, kFacts}).message()), HasSubstr("is not a journal"));
    EXPECT_EQ(ReadText(path_), text);
  }
}

TEST_F(JournalTest, DamageBeforeTheLastLineIsRefused) {
  Fill({Measured("a"), Measured("b")});
  const std::string whole = ReadText(path_);
  std::string damaged = whole;
  damaged[damaged.find("\"verdict\"") + 1] = 'X';
  std::ofstream(path_) << damaged;
  EXPECT_THAT(Refusal(), HasSubstr("damaged in line 2"));
  std::ofstream(path_) << whole << JournalLine(Measured("a")) << "\n";
  EXPECT_THAT(Refusal(), HasSubstr("twice (line 4)"));
}

TEST_F(JournalTest, AMissingOrEmptyFileIsNotFound) {
  const absl::Status missing = Resume().status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), AllOf(HasSubstr("there is nothing in "), HasSubstr(path_)));
  std::ofstream(path_) << "";
  EXPECT_EQ(Resume().status(), missing);
  EXPECT_THAT(std::string(Journal().Resume(path_, kIdentity, /*doubtful=*/true).status().message()),
              AllOf(HasSubstr(path_), HasSubstr("holds no run, of which --resume=doubtful")));
  std::filesystem::remove(path_);
  EXPECT_THAT(std::string(Journal().Continue(path_).message()), testing::Not(HasSubstr("first case")))
      << "it ends a run";
}

TEST_F(JournalTest, NoOldJournalIsOverwritten) {
  for (const char* name : {"a", "b", "c"}) Fill({Measured(name)});
  EXPECT_THAT(ReadText(path_ + ".previous"), HasSubstr("\"a\""));
  EXPECT_THAT(ReadText(path_ + ".previous.2"), HasSubstr("\"b\""));
  EXPECT_THAT(ReadText(path_), HasSubstr("\"c\""));
}

TEST_F(JournalTest, ARepairedJournalStaysLocked) {
  Fill({Measured("a")});
  std::ofstream(path_, std::ios::app) << R"({"name": "b", "repet)";
  Journal first;
  ASSERT_TRUE(first.Resume(path_, kIdentity).ok());
  EXPECT_THAT(Refusal(), HasSubstr("is being written"));
}

TEST_F(JournalTest, AHeaderWithoutContextIsDamaged) {
  std::ofstream(path_)
      << R"({"schema":"roofbench-journal-1","run":{"program":"1234","device":"cpu","flags":"--seed=1"}})"
      << "\n";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("damaged header"), HasSubstr("no context")));
  std::ofstream(path_) << R"({"schema":"roofbench-journal-1","context":{"a":["b"]},"run":{"program":"1234"}})"
                       << "\n";
  EXPECT_THAT(Refusal(), HasSubstr("damaged header"));
}

TEST_F(JournalTest, AnUntrustedLineIsRefusedWithoutACrash) {
  Fill({Measured("a")});
  const std::string whole = ReadText(path_);
  const auto with = [&](const std::string& what, const std::string& instead) {
    const std::size_t at = whole.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return whole.substr(0, at) + instead + whole.substr(at + what.size());
  };
  constexpr int kDeep = 300'000;
  const std::string deep = std::string(kDeep, '[') + std::string(kDeep, ']');
  for (const auto& [what, instead] :
       std::vector<std::pair<std::string, std::string>>{{"\"text\":\"1,2,3\"", "\"text\":" + deep},
                                                        {"\"samples_s\":[0.1", "\"samples_s\":[-0.1"},
                                                        {"\"samples_s\":[0.1,", "\"samples_s\":[],\"x\":[0.1,"},
                                                        {"\"forward\":[", "\"forward\":[],\"sideward\":["},
                                                        {"\"backward\":[0.7", "\"backward\":[-0.7"},
                                                        {"\"forward\":[", "\"\\u001b[31m\":["},
                                                        {"\"ci\":", "\"=cmd|' /C calc'!A0\":"},
                                                        {"\"first_sample\":0", "\"first_sample\":9000000000000000000"},
                                                        {"\"steps_per_sample\":2", "\"steps_per_sample\":0"},
                                                        {"\"ci\":0", "\"ci\":1e308,\"x\":0"},
                                                        {"\"samples_s\":[0.1", "\"samples_s\":[1.07e6"},
                                                        {"\"ci\":", Many(1000) + "\"ci\":"},
                                                        {"\"repetition\":0", "\"repetition\":-1"}}) {
    std::ofstream(path_) << with(what, instead);
    EXPECT_THAT(Refusal(), HasSubstr("damaged in line 2")) << what;
  }
  std::ofstream(path_) << with("\"context\":{", "\"deep\":" + deep + ",\"context\":{");
  EXPECT_THAT(Refusal(), HasSubstr("is not a journal of roofbench"));
}

TEST_F(JournalTest, ACaseThatEndedItsProcessIsRestored) {
  Fill({Measured("a")});
  std::ofstream(path_, std::ios::app) << R"({"name": "b", "repet)";
  {
    Journal parent;
    ASSERT_TRUE(parent.Continue(path_).ok());
    ASSERT_TRUE(parent.Append(Failed("b", "crashed")).ok());
  }
  const auto recorded = Resume();
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_THAT(recorded->notes, SizeIs(1)) << "no line is cut off now";
  ASSERT_THAT(recorded->outcomes, SizeIs(2));
  EXPECT_EQ(recorded->outcomes[1].reason, "crashed");
}

TEST_F(JournalTest, AJournalInMemoryWorksLikeAnyOther) {
  const absl::StatusOr<std::string> path = NamelessJournal();
  ASSERT_TRUE(path.ok()) << path.status();
  path_ = *path;
  Fill({Measured("a")});
  Outcome interrupted = Measured("c");
  interrupted.verdict = Verdict::kInterrupted;
  {
    Journal parent;
    ASSERT_TRUE(parent.Continue(path_).ok());
    ASSERT_TRUE(parent.Append(Failed("b", "crashed")).ok());
    ASSERT_TRUE(parent.Append(interrupted).ok());
  }
  for (int again = 0; again < 2; ++again) {
    const auto recorded = Resume();
    ASSERT_TRUE(recorded.ok()) << recorded.status();
    EXPECT_THAT(recorded->outcomes, SizeIs(2));
  }
}

TEST_F(JournalTest, ADeviceCannotBeContinued) {
  Journal journal;
  EXPECT_THAT(std::string(journal.Continue("/dev/null").message()), HasSubstr("not a regular file"));
}

TEST_F(JournalTest, OneProcessWritesAtATime) {
  Journal first;
  ASSERT_TRUE(first.Create(path_, {kIdentity, kFacts}).ok());
  ASSERT_TRUE(first.Append(Measured("a")).ok());
  EXPECT_THAT(Refusal(), HasSubstr("is being written"));
  Journal second{std::chrono::milliseconds(0)};
  EXPECT_THAT(std::string(second.Create(path_, {kIdentity, kFacts}).message()), HasSubstr("is being written"));
  ASSERT_TRUE(first.Append(Measured("b")).ok());
  EXPECT_THAT(ReadText(path_), HasSubstr("\"b\""));
}

TEST(RunIdentityTest, HashChangesWithEveryByte) {
  const TempFolder folder;
  const std::string text(200'003, 'a');
  std::ofstream(folder / "a") << text;
  const auto hash = HashOfFile(folder / "a");
  ASSERT_TRUE(hash.ok());
  for (const std::size_t at : {std::size_t{0}, std::size_t{65'535}, std::size_t{65'536}, text.size() - 1}) {
    std::string other = text;
    other[at] = 'b';
    std::ofstream(folder / "b") << other;
    EXPECT_NE(*hash, *HashOfFile(folder / "b")) << at;
  }
  EXPECT_FALSE(HashOfFile(folder / "none").ok());
}

}  // namespace
}  // namespace roofbench
