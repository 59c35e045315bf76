// A prompt of token ids that a checkpoint goes on with, so that a person can read what a precision makes of it:
// tools/tokens turns text into ids and back. Unlike in `generate`, the text ends where the model ends it.

#include <ATen/ops/empty.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "benchmarks/macro/generation.h"

ABSL_FLAG(std::string, prompt_ids, "",
          "token ids of the prompt of `complete`: themselves, a file of them, or - (stdin)");
ABSL_FLAG(std::string, stop_ids, "", "token ids that end a text of `complete` (by default those of the checkpoint)");
ABSL_FLAG(std::string, tokens_out, "", "file that gets the token ids that `complete` chose, a line a case");

namespace roofbench {
namespace {

using Ids = std::vector<int64_t>;

absl::StatusOr<Ids> ParseIds(const std::string& flag, const std::string& text) {
  Ids ids;
  for (const auto& part : absl::StrSplit(text, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(part, &ids.emplace_back()) || ids.back() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", part, " is no token id; expected 1,2,3"));
    }
  }
  return ids;
}

absl::StatusOr<Ids> ReadPrompt() {
  const std::string given = absl::GetFlag(FLAGS_prompt_ids);
  if (given.empty()) {
    return absl::UnimplementedError("needs --checkpoint=FOLDER and --prompt_ids, which tools/tokens makes from a text");
  }
  std::ostringstream text;
  if (given == "-") {
    text << std::cin.rdbuf();
  } else if (given.find_first_not_of("0123456789, ") == std::string::npos) {
    text << given;
  } else {
    const std::ifstream file(given);
    if (!file) return absl::InvalidArgumentError(absl::StrCat("--prompt_ids: ", given, " cannot be read"));
    text << file.rdbuf();
  }
  absl::StatusOr<Ids> ids = ParseIds("prompt_ids", text.str());
  if (ids.ok() && ids->empty()) return absl::InvalidArgumentError("--prompt_ids: there are none");
  return ids;
}

// Read once: standard input has no second time.
const absl::StatusOr<Ids>& ThePrompt() {
  static const auto* prompt = new absl::StatusOr<Ids>(ReadPrompt());
  return *prompt;
}

// Each case's line, so that the file is whole whichever case came last.
absl::Status WriteTokens(const std::string& name, const Ids& ids) {
  static auto* lines = new std::map<std::string, std::string>();
  const std::string path = absl::GetFlag(FLAGS_tokens_out);
  if (path.empty()) return absl::OkStatus();
  (*lines)[name] = absl::StrJoin(ids, ",");
  std::ofstream file(path);
  for (const auto& [key, line] : *lines) file << key << '\t' << line << '\n';
  file.close();
  return file ? absl::OkStatus() : absl::InternalError(absl::StrCat("--tokens_out: ", path, " cannot be written"));
}

// The same as a point of `generate`.
Point GenerateAt(const Point& at) {
  const std::size_t prompt = ThePrompt().ok() ? ThePrompt()->size() : 1;
  Point point = GenerationPoint().With("model", "checkpoint").With("batch", "1").With("prompt", absl::StrCat(prompt));
  for (const auto& [axis, value] : at.values()) point = point.With(axis, value);
  return point;
}

absl::Status Supports(const Point& at, const Device& device) {
  if (!ThePrompt().ok()) return ThePrompt().status();
  const Point point = GenerateAt(at);
  if (absl::Status status = LanguageModelSupports(point, device); !status.ok()) return status;
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(point);
  const auto vocab = static_cast<int64_t>(config->shape.base.vocab);
  const int64_t largest = *std::max_element(ThePrompt()->begin(), ThePrompt()->end());
  if (largest >= vocab) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt_ids: ", largest, " is no token of the checkpoint, which has ", vocab));
  }
  return absl::OkStatus();
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const Point point = GenerateAt(at);
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(point);
  if (!config.ok()) return config.status();
  const absl::StatusOr<Ids> stops = ParseIds("stop_ids", absl::GetFlag(FLAGS_stop_ids));
  if (!stops.ok()) return stops.status();
  const Ids& prompt = *ThePrompt();
  Completion completion{.prompt = at::empty({1, static_cast<int64_t>(prompt.size())}, at::kLong),
                        .stop_ids = stops->empty() ? config->stop_ids : *stops,
                        .take = [name = at.Name()](const Ids& ids) { return WriteTokens(name, ids); }};
  std::copy(prompt.begin(), prompt.end(), completion.prompt.data_ptr<int64_t>());
  return BuildGeneration(point, in, completion);
}

const Registration kComplete([] {
  Family family("complete", "goes on with the prompt of --prompt_ids by the model of --checkpoint");
  family.Axis({.name = "impl", .choices = {"native", "eager"}, .default_value = "native"});
  return WithStorageAxes(std::move(family))
      .Axis({.name = "new", .doc = "most tokens to generate"})
      .Axis({.name = "sampling", .choices = {"greedy", "top_k"}, .default_value = "greedy"})
      .DefaultCache("warm")
      .Grid(Suite::kFull, {{"precision", {"bf16", "int8", "int4", "llm_int8"}}, {"new", {"128"}}})
      .Supports(Supports)
      .PredictAs(GenerateAt)
      .Cost([](const Point& at) {
        const Point point = GenerateAt(at);
        return StoredAt(point).GenerateCost(1, point.Number("prompt"), point.Number("new"));
      })
      .Build(Build);
}());

}  // namespace
}  // namespace roofbench
