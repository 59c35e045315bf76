// SPDX-License-Identifier: Apache-2.0
// Errors on the command line, in the environment and on the disk: each is refused with a line that names the cause and
// a remedy, and existing files survive: each row is a run of Main in a child process. Cases that cannot be built say
// why.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lib/cli/main.h"
#include "lib/device/cpu_device.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "tests/base/temp_folder.h"
#include "tests/benchmarks/every_case.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

// {tmp} is the test's folder.
struct Bad {
  std::vector<std::string> flags;
  std::vector<std::string> says;  // the thing's name, then the way out
  std::vector<std::pair<std::string, std::string>> environment = {};
};

struct Ended {
  int status = 0;
  std::string out;
  std::string error;
};

void Redirect(int stream, const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, stream);
  close(file);
}

Ended RunMain(std::vector<std::string> arguments, const std::vector<std::pair<std::string, std::string>>& environment) {
  const TempFolder streams;
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    Redirect(STDOUT_FILENO, streams / "out");
    Redirect(STDERR_FILENO, streams / "error");
    unsetenv("GTEST_OUTPUT");
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    arguments.insert(arguments.begin(), "roofbench");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int status = Main(static_cast<int>(arguments.size()), argv.data());
    std::cout.flush();
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadText(streams / "out"), ReadText(streams / "error")};
}

std::string InFolder(const std::string& text, const TempFolder& folder) {
  const std::string path = folder / "";
  return absl::StrReplaceAll(text, {{"{tmp}", path.substr(0, path.size() - 1)}});
}

std::map<std::string, std::string> Contents(const TempFolder& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : folder.names()) contents[name] = ReadText(folder / name);
  return contents;
}

// Runs the row after `flags` and with `files` in the folder, which stay as they are.
void ExpectRefused(const Bad& bad, std::vector<std::string> flags, const std::map<std::string, std::string>& files) {
  const TempFolder folder;
  for (const auto& [name, text] : files) std::ofstream(folder / name) << text;
  flags.insert(flags.end(), bad.flags.begin(), bad.flags.end());
  for (std::string& flag : flags) flag = InFolder(flag, folder);
  SCOPED_TRACE(absl::StrJoin(bad.flags, " ").substr(0, 200) +
               absl::StrJoin(bad.environment, " ", absl::PairFormatter("=")));
  const Ended ended = RunMain(flags, bad.environment);
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.out, "");
  for (const std::string& said : bad.says) EXPECT_THAT(ended.error, HasSubstr(InFolder(said, folder)));
  EXPECT_THAT(ended.error, HasSubstr("roofbench: "));
  EXPECT_LE(std::count(ended.error.begin(), ended.error.end(), '\n'), 2) << "a refusal is a line, not a page";
  EXPECT_EQ(ended.error.find('\033'), std::string::npos) << "an escape reached the terminal";
  EXPECT_EQ(Contents(folder), files);
}

TEST(Refusals, OfFlagsAndTheEnvironment) {
  const Bad table[] = {
      {{"--unknown"}, {"unknown flag --unknown", "--help=all lists all"}},
      {{"--benchmark_filer=x"}, {"--benchmark_filer", "did you mean --benchmark_filter?"}},
      {{"matmul"}, {"'matmul' is not a flag", "--benchmark_filter"}},
      {{"--"}, {"'--' is not a flag"}},
      {{"--benchmark_filter=nothing_like_it"}, {"matches no case", "--benchmark_list_tests --suite=full lists all"}},
      {{"--benchmark_filter=-."}, {"matches no case", "lists all"}},
      {{"--benchmark_filter=("}, {"--benchmark_filter=( is not a valid regular expression"}},
      {{"--suite=huge"}, {"--suite=huge", "quick, standard, full, machine"}},
      {{"--device=tpu"}, {"--device=tpu", "auto"}},
      {{"--device=cuda:x"}, {"--device=cuda:x", "auto"}},
      {{"--device=cuda:99"}, {"--device=cuda:99", "cpu"}},
      {{"--device="}, {"--device=", "cpu"}},
      {{"--reference=abacus"}, {"--reference=abacus", "a100-sxm4-40gb", "h200"}},
      {{"--axis=matmul.q=1"}, {"'q'", "dtype"}},
      {{"--axis=matmull.n=1"}, {"'matmull'", "matmul,"}},
      {{"--axis=dtype=fp31"}, {"'fp31'", "bf16"}},
      {{"--axis=matmul.n=12x"}, {"'12x'", "whole number"}},
      {{"--axis=matmul.n="}, {"--axis=matmul.n=", "expected [family.]name=v1,v2"}},
      {{"--axis=n"}, {"--axis=n", "expected [family.]name=v1,v2"}},
      {{"--axis"}, {"--axis needs a value", "--axis="}},
      {{"--seed=-1"}, {"--seed=-1"}},
      {{"--seed=99999999999999999999"}, {"--seed=99999999999999999999"}},
      {{"--threads=-1"}, {"--threads=-1", "from 0 to 4096"}},
      {{"--threads=99999"}, {"--threads=99999", "from 0 to 4096"}},
      {{"--threads=two"}, {"--threads=two"}},
      {{"--threads=4000"}, {"--threads=4000 is above the", "--oversubscribe allows them"}},
      {{"--max_time=-1"}, {"--max_time=-1", "from 0 to 86400"}},
      {{"--max_time=nan"}, {"--max_time=nan", "from 0 to 86400"}},
      {{"--roof_share=-0.1"}, {"--roof_share=-0.1", "from 0 to 0.9"}},
      {{"--max_step_time=1e9"}, {"--max_step_time=1e", "from 0 to 86400"}},
      {{"--case_timeout=-3"}, {"--case_timeout=-3", "from 0 to 86400"}},
      {{"--case_timeout=5", "--supervise=false"}, {"--case_timeout needs --supervise=true"}},
      {{"--describe=xml"}, {"--describe=xml", "json"}},
      {{"--resume"}, {"--resume needs --journal=FILE"}},
      {{"--resume=doubtfull"}, {"--resume=doubtfull: expected true, false or doubtful"}},
      {{"--resume", "--journal=no-such.jsonl"}, {"there is no journal no-such.jsonl", "give the run's flags"}},
      {{"--warmup_iters=-2"}, {"--warmup_iters=-2", "from -1"}},
      {{"--min_samples=0"}, {"--min_samples=0", "from 1"}},
      {{"--min_samples=20", "--max_samples=10"}, {"--min_samples=20 is above --max_samples=10"}},
      {{"--max_samples=99999999999"}, {"--max_samples=99999999999", "from 1 to"}},
      {{"--benchmark_min_time=soon"}, {"--benchmark_min_time=soon", "from 0 to 86400"}},
      {{"--benchmark_min_time=0x"}, {"--benchmark_min_time=0x", "20x"}},
      {{"--benchmark_repetitions=0"}, {"--benchmark_repetitions=0", "from 1"}},
      {{"--benchmark_repetitions=many"}, {"--benchmark_repetitions=many", "from 1"}},
      {{"--benchmark_format=xml"}, {"--benchmark_format=xml", "console, json, csv"}},
      {{"--benchmark_out_format=xml"}, {"--benchmark_out_format=xml", "json, csv"}},
      {{"--benchmark_time_unit=hours"}, {"--benchmark_time_unit=hours", "ns, us, ms, s"}},
      {{"-benchmark_repetitions=9"}, {"-benchmark_repetitions=9", "two dashes", "--benchmark_repetitions=9"}},
      {{"--axis=matmul.n=16:64"}, {"16:64", "256:4096:x2"}},
      {{"--benchmark_filter=matmull"}, {"matmull", "did you mean 'matmul'"}},
      {{"--v"}, {"--v needs a value"}},
      {{"--benchmark_min_warmup_time=-1"}, {"--benchmark_min_warmup_time=-1", "from 0 to 86400"}},
      {{"--benchmark_color=purple"}, {"--benchmark_color=purple", "auto, true, false"}},
      {{"--benchmark_list_tests=maybe"}, {"--benchmark_list_tests=maybe", "true, false or json"}},
      {{"--benchmark_enable_random_interleaving=perhaps"}, {"random_interleaving=perhaps", "true or false"}},
      {{"--benchmark_context=a"}, {"--benchmark_context=a", "KEY=VALUE"}},
      {{"--benchmark_context=a=\033[31mred"}, {"a=\\x1b[31mred", "without control characters"}},
      {{"--benchmark_context=a=\377"}, {"a=\\xff", "UTF-8"}},
      {{"--benchmark_context=date=1"}, {"date is in every result", "another key"}},
      {{"--benchmark_context=executable=1"}, {"executable is in every result"}},
      {{"--benchmark_context=roof_read=1"}, {"roof_read is in every result"}},
      {{"--benchmark_context=a=b,"}, {"expected KEY=VALUE"}},
      {{"--benchmark_context==a"}, {"expected KEY=VALUE"}},
      {{"--benchmark_context=a=" + std::string(5000, 'b')}, {"at most"}},
      {{"--benchmark_filter=" + std::string(16000, '(')}, {"not a valid regular expression", "nested parentheses"}},
      {{"--benchmark_filter=((x{100}){100}){100}"}, {"not a valid regular expression", "too long"}},
      {{"--benchmark_filter=(.*)(.*)(.*)(.*)(.*)(.*)(.*)~$"}, {"matches no case"}},
      {{"--check=maybe"}, {"--check=maybe", "on, off"}},
      {{"--inject_delay=-1"}, {"--inject_delay=-1", "from 0 to 10"}},
      {{"--journal"}, {"--journal needs a value"}},
      {{}, {"--benchmark_color=purple", "auto, true, false"}, {{"BENCHMARK_COLOR", "purple"}}},
      {{}, {"--benchmark_list_tests=maybe", "true, false or json"}, {{"BENCHMARK_LIST_TESTS", "maybe"}}},
      {{}, {"--benchmark_filter=nothing_like_it matches no case"}, {{"BENCHMARK_FILTER", "nothing_like_it"}}},
      {{}, {"--benchmark_repetitions=\\x1b[31m"}, {{"BENCHMARK_REPETITIONS", "\033[31m"}}},
      {{}, {"THP_MEM_ALLOC_ENABLE=\\x1b[31m", "expected 1"}, {{"THP_MEM_ALLOC_ENABLE", "\033[31m"}}},
      {{}, {"expected 1, as --allocator=tuned has it"}, {{"THP_MEM_ALLOC_ENABLE", "0"}}},
      {{"--fresh_process", "--supervise=false"}, {"--fresh_process needs --supervise=true"}},
      {{"--allocator=mine"}, {"--allocator=mine", "tuned, system"}},
      {{"--axis=matmul.=3"}, {"--axis=matmul.=3"}},
      {{"--benchmark_min_time=-3x"}, {"--benchmark_min_time=-3x"}},
      {{"--benchmark_report_aggregates_only=2"}, {"--benchmark_report_aggregates_only=2", "true or false"}},
      {{"--wait_quiet=-1"}, {"--wait_quiet=-1"}},
      {{"--axis=n=256:4096:x1"}, {"256:4096:x1"}},
      {{"--axis=n=4096:256:x2"}, {"4096:256:x2"}},
      {{"--axis=n=1:100000:+1"}, {"1:100000:+1", "1000 values"}},
      {{"--benchmark_perf_counters=CYCLES"}, {"--benchmark_perf_counters"}},
      {{"--roof_share=1"}, {"--roof_share=1"}},
      {{"--list_axes=perhaps"}, {"--list_axes=perhaps"}},
      {{"--device=cuda"}, {"--device=cuda"}},
      {{"--benchmark_filter=^gelu/", "--top_p=0.5"},
       {"--top_p has no effect on the selected cases: --axis=sampling=given"}},
      {{"--benchmark_filter=^generate/", "--min_p=0.5"}, {"--axis=sampling=given"}},
      {{"--benchmark_filter=^quality/", "--prompt_ids=1,2"}, {"--prompt_ids has no effect on the selected cases"}},
      {{"--benchmark_filter=^gelu/", "--stop_ids=2"}, {"--benchmark_filter='^complete/' selects cases that read it"}},
      {{"--benchmark_filter=^complete/", "--text_ids=1,2"}, {"--benchmark_filter='^quality/'"}},
      {{"--profile_sort=color"}, {"self_device"}},
      {{"--profile_steps=0"}, {"profile_steps"}},
      {{"--profile_rows=-1"}, {"profile_rows"}},
  };
  for (const Bad& bad : table) ExpectRefused(bad, {"--benchmark_out={tmp}/out.json"}, {{"out.json", "precious"}});
}

TEST(Refusals, OfFiles) {
  const Bad table[] = {
      {{"--benchmark_out={tmp}/no/folder/out.json"}, {"{tmp}/no/folder/out.json", "make its folder first"}},
      {{"--benchmark_out={tmp}"}, {"cannot write {tmp}: Is a directory", "name a file in it"}},
      {{"--benchmark_out={tmp}/precious/out.json"}, {"{tmp}/precious/out.json", "a part of the path is a file"}},
      {{"--benchmark_out=/proc/out.json"}, {"/proc/out.json"}},
      {{"--journal={tmp}/no/folder/run.jsonl"}, {"{tmp}/no/folder/run.jsonl", "make its folder first"}},
      {{"--journal={tmp}"}, {"{tmp}: Is a directory", "name a file in it"}},
      {{"--journal=/dev/full"}, {"/dev/full: No space left on device", "make room"}},
      {{"--journal={tmp}/precious"}, {"{tmp}/precious exists and is not a journal", "remove it"}},
      {{"--journal={tmp}/precious", "--resume"}, {"{tmp}/precious is not a journal of roofbench", "another --journal"}},
      {{"--journal={tmp}/foreign", "--resume"},
       {"{tmp}/foreign belongs to another run, with the program '0123'", "--resume"}},
      {{"--journal={tmp}/other", "--resume"}, {"{tmp}/other is not a journal of roofbench", "another --journal"}},
      {{"--journal=/dev/null", "--resume"}, {"/dev/null is not a regular file", "another --journal"}},
      {{"--journal={tmp}/bare", "--resume"}, {"{tmp}/bare has a damaged header (it has no context)"}},
      {{"--benchmark_out={tmp}/a.json", "--journal={tmp}/a.json"}, {"{tmp}/a.", "choose another name"}},
      {{"--benchmark_out={tmp}/a.json", "--journal={tmp}/./a.json"}, {"{tmp}/a.", "choose another name"}},
      {{"--benchmark_out=not-yet.json", "--journal=./not-yet.json"}, {"is a file of", "choose another name"}},
      {{"--benchmark_out={tmp}/a.json", "--journal={tmp}/a.json.part"}, {"{tmp}/a.", "choose another name"}},
      {{"--benchmark_out={tmp}/a.json", "--tokens_out={tmp}/a.json"}, {"{tmp}/a.", "choose another name"}},
      {{"--benchmark_out={tmp}/j.previous", "--journal={tmp}/j"}, {"puts {tmp}/j.previous next to it"}},
      {{"--benchmark_out={tmp}/j.previous.3", "--journal={tmp}/j"}, {"puts {tmp}/j.previous next to it"}},
      {{"--benchmark_context=a=1", "--benchmark_context=a=2"}, {"a is in every result, or given twice"}},
      {{"--benchmark_context=device=x"}, {"device is in every result"}},
      {{"--tokens_out={tmp}/no/out"}, {"{tmp}/no/out", "make its folder first"}},
      {{"--profile=/dev/null"}, {"a part of the path is a file"}},
      {{"--routing={tmp}/none"}, {"--routing: {tmp}/none: No such file or directory"}},
      {{"--routing={tmp}"}, {"--routing: {tmp}", "not a regular file"}},
      {{"--routing={tmp}/precious"}, {"--routing={tmp}/precious: text is not a number of rows; expected 1,2,3"}},
      {{"--routing={tmp}/negative"}, {"--routing={tmp}/negative: -1 is not a number of rows"}},
      {{"--routing={tmp}/zeros"}, {"--routing={tmp}/zeros: no expert has a row"}},
      {{"--routing={tmp}/empty"}, {"--routing={tmp}/empty: no expert has a row"}},
      {{"--routing={tmp}/rows"}, {"--routing has no effect", "--axis=grouped_mm.routing=given"}},
      {{"--profile=/nowhere/at/all"}, {"make its folder first"}},
      {{"--describe_checkpoint="}, {"--describe_checkpoint=: expected FOLDER"}},
      {{"--describe_checkpoint={tmp}/none"}, {"--describe_checkpoint={tmp}/none: {tmp}/none/config.json: No such"}},
      {{"--describe_checkpoint={tmp}", "--benchmark_format=csv"}, {"answers as console or json"}},
  };
  const std::map<std::string, std::string> files = {
      {"precious", "text\n"},
      {"foreign", R"({"schema": "roofbench-journal-1", "context": {"roofbench_version": "0", "device_kind": "cpu", )"
                  R"("device": "x"}, "run": {"program": "0123", "device": "cpu, x", "flags": "--seed=9"}})"
                  "\n"},
      {"bare", "{\"schema\": \"roofbench-journal-1\", \"run\": {\"program\": \"0123\"}}\n"},
      {"other", "{\"schema\": \"other-2\"}\n"},
      {"negative", "3,-1"},
      {"zeros", "0 0"},
      {"empty", ""},
      {"rows", "1,2"}};
  const std::vector<std::string> tiny = {"--benchmark_filter=matmul/impl:eager/dtype:fp32",
                                         "--suite=quick",
                                         "--axis=matmul.m=n",
                                         "--axis=matmul.k=n",
                                         "--axis=matmul.n=16",
                                         "--benchmark_min_time=1x",
                                         "--roofs=off",
                                         "--threads=1"};
  for (const Bad& bad : table) ExpectRefused(bad, tiny, files);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

// Values that are valid one by one and not together: the case is skipped with this reason.
TEST(Refusals, OfCases) {
  const CpuDevice device(1);
  const struct {
    const char* family;
    AxisValues values;
    const char* says;
  } rows[] = {
      {"decode", {{"impl", "eager"}, {"precision", "int8"}, {"keep", "o_proj"}}, ""},
      {"decode", {{"impl", "eager"}, {"precision", "bf16"}, {"keep", "o_proj"}}, "precision:bf16 quantizes none"},
      {"decode",
       {{"impl", "eager"}, {"precision", "int8"}, {"keep", "lm_head"}, {"head", "quantized"}},
       "keep:lm_head and head:quantized ask for two different heads"},
      {"decode",
       {{"impl", "eager"}, {"precision", "llm_int8"}, {"keep", "o_proj+lm_head"}},
       "leave lm_head out of keep"},
      {"decode",
       {{"impl", "eager"}, {"precision", "llm_int8"}, {"activations", "int8"}},
       "for int8 and int4 weights, not for llm_int8"},
      {"decode",
       {{"impl", "eager"}, {"precision", "bf16"}, {"activations", "fp16"}},
       "for quantized weights, as weights in fp16 have them; not for bf16"},
      {"decode",
       {{"impl", "native"}, {"precision", "int4"}, {"group", "32"}, {"parallel", "tensor"}, {"ranks", "2"}},
       ""},
      {"decode",
       {{"impl", "native"}, {"precision", "int4"}, {"group", "64"}, {"parallel", "tensor"}, {"ranks", "2"}},
       "divided among 2 ranks: int4 in groups of 64 cannot hold rows of 96"},
      {"decode",
       {{"impl", "native"}, {"precision", "int8"}, {"parallel", "tensor"}, {"ranks", "4"}},
       "cannot divide the model's 2 heads of keys"},
      {"decode",
       {{"impl", "compiled"}, {"precision", "fp32"}, {"parallel", "tensor"}, {"ranks", "2"}},
       "which impl:compiled does not support"},
      {"decode", {{"impl", "native"}, {"precision", "int8"}, {"ranks", "2"}}, "parallel:none is one process"},
      {"prefill", {{"impl", "fastest"}, {"precision", "fp32"}}, "precision:fp32 has not: impl:native is the same"},
      {"prefill",
       {{"impl", "fastest"}, {"precision", "int8"}, {"activations", "int8"}},
       kernels::TileLinearKernelsHere() != nullptr ? "" : "no dot product of bf16"},
      {"train_step",
       {{"impl", "fastest"}, {"dtype", "bf16"}},
       kernels::TileLinearKernelsHere() != nullptr ? "" : "no dot product of bf16"},
      {"train_step",
       {{"impl", "fastest"}, {"dtype", "bf16"}, {"parallel", "ddp_flat"}, {"ranks", "2"}},
       kernels::TileLinearKernelsHere() != nullptr ? "which impl:fastest does not support" : "no dot product of bf16"},
      {"train_step",
       {{"impl", "fastest"}, {"dtype", "fp32"}},
       "impl:fastest is for dtype:bf16_autocast, bf16: native, but"},
      {"mlp", {{"impl", "fastest"}, {"dtype", "fp32"}}, "impl:fastest is for dtype:bf16_autocast: native, but"},
      {"mlp", {{"parallel", "fsdp"}, {"ranks", "2"}}, ""},
      {"mlp", {{"parallel", "fsdp"}, {"bucket_mib", "4"}}, "parallel:fsdp has no buckets of bucket_mib"},
      {"mlp", {{"parallel", "fsdp"}, {"dtype", "bf16_autocast"}}, "parallel:fsdp takes dtype:fp32 alone"},
      {"mlp", {{"parallel", "zero1"}}, "the state of an optimizer, which mlp has not"},
      {"mlp", {{"parallel", "tensor"}, {"ranks", "2"}, {"layers", "5"}}, "divides pairs of layers, and d by 2"},
      {"mlp", {{"parallel", "tensor"}, {"ranks", "2"}, {"d", "65"}}, "divides pairs of layers, and d by 2"},
      {"train_step", {{"parallel", "ddp_flat"}, {"ranks", "2"}}, ""},
      {"train_step", {{"parallel", "ddp_flat"}, {"pass", "forward"}}, "parallel: needs pass:step"},
      {"read", {{"impl", "stream"}, {"threads", "1"}}, ""},
      {"read", {{"impl", "stream"}, {"threads", "2"}}, "threads:2 is not a whole number up to the 1 of this run"},
      {"read", {{"impl", "stream"}, {"threads", "0.5"}}, "threads:0.5 is not a whole number up to"},
      {"read", {{"impl", "eager"}, {"threads", "1"}}, "impl:stream alone can choose its threads and stores"},
      {"copy", {{"impl", "eager"}, {"stores", "plain"}}, "impl:stream alone can choose its threads and stores"},
      {"latency", {{"pages", "small"}}, ""},
      {"latency", {{"pages", "small"}, {"bytes", "100"}}, "bytes must be a multiple of 64"},
      {"latency", {{"cache", "cold"}}, "cache:warm"},
      {"first_touch", {{"pages", "small"}, {"bytes", "4096"}}, ""},
      {"first_touch", {{"pages", "small"}, {"bytes", "5000"}}, "bytes must be a multiple of 4096"},
      {"arithmetic", {{"impl", "vector"}, {"dtype", "fp32"}, {"threads", "1"}}, ""},
  };
  for (const auto& row : rows) {
    AxisValues values = row.values;
    if (row.family == std::string("decode")) values.insert(values.end(), {{"model", "tiny_llama"}, {"depth", "6"}});
    const PlannedCase planned = CaseAt(row.family, values);
    const std::string refusal(planned.family->SupportOf(planned.point, device).message());
    EXPECT_THAT(refusal, HasSubstr(row.says)) << planned.name;
    EXPECT_EQ(refusal.empty(), *row.says == '\0') << planned.name;
  }
}

}  // namespace
}  // namespace roofbench
