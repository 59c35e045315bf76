// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/flags.h"

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "lib/base/text.h"

ABSL_FLAG(std::string, device, "auto", "what to measure: auto, cpu, cuda or cuda:N");
ABSL_FLAG(std::string, suite, "", "how much to run: quick, standard or full (quick; full where a filter is given)");
ABSL_FLAG(bool, list_axes, false, "print every family with its axes and values, and stop");
ABSL_FLAG(bool, explain_counters, false, "print the table of counters, and stop");
ABSL_FLAG(std::string, reference, "a100-sxm4-40gb",
          "datasheet that <ref>_flop_util and <ref>_mem_util are held against");
ABSL_FLAG(int64_t, warmup_iters, -1, "exactly this many warm-up steps (-1: until chunk medians are flat)");
ABSL_FLAG(int64_t, min_samples, 10, "fewest samples a case");
ABSL_FLAG(int64_t, max_samples, 5000, "most samples a case");
ABSL_FLAG(double, max_time, 0.4, "seconds of samples a case; sampling ends earlier once the median is known to 1 %");
ABSL_FLAG(double, roof_share, 0.25, "share of the time that measuring the roof beside the case takes (0: no roof)");
ABSL_FLAG(
    std::string, roofs, "reuse",
    "where roofs come from: reuse (those that a start within the last hour has kept), measure, or off (no roofs)");
ABSL_FLAG(double, max_step_time, 0,
          "skip a case whose step is predicted to take longer, in seconds (0: the suite's limit)");
ABSL_FLAG(std::string, check, "on", "compare each case with a reference before timing it: on or off");
ABSL_FLAG(int32_t, threads, 0, "threads of the CPU (0: as many as LibTorch takes)");
ABSL_FLAG(std::string, allocator, "tuned",
          "how tensors, weights and roofs get memory: tuned (huge pages; what a step frees, the next one finds again) "
          "or system (the C library's defaults)");
ABSL_FLAG(bool, oversubscribe, false, "take more threads than there are processors");
ABSL_FLAG(uint64_t, seed, 0, "seed of all data");
ABSL_FLAG(double, inject_delay, 0,
          "make every step slower by this fraction, by real extra work: to test what compares results");
ABSL_FLAG(bool, unverified, false,
          "run GPU kernels, too, that --list_axes lists as unverified: no GPU has run them yet");
ABSL_FLAG(bool, nvtx, false, "mark warm-up, samples, steps and their parts as NVTX ranges, for a profiler");
ABSL_FLAG(std::string, profile, "",
          "folder that gets tables and a trace of each case, from more steps of it under a profiler");
ABSL_FLAG(std::string, memory_snapshot, "",
          "folder that gets each allocation of a case as a pickle, from the first --profile_steps steps of it");
ABSL_FLAG(int64_t, profile_steps, 3, "steps of --profile, after a case was timed, and of --memory_snapshot");
ABSL_FLAG(std::string, profile_sort, "",
          "column by which a profile's operators are sorted: self, total, self_device, total_device, calls, flops or "
          "bytes (self time, of the GPU where there is one)");
ABSL_FLAG(int64_t, profile_rows, 50, "most rows of a profile's tables in text; CSV and JSON have all");
ABSL_FLAG(int64_t, profile_depth, 0,
          "levels of a profile's tables: 1 leaves out operators inside operators, and parts of a model inside parts "
          "(0: all)");
ABSL_FLAG(int64_t, profile_width, 60, "most characters of a name in a profile's tables in text");
ABSL_FLAG(std::string, journal, "", "file that gets a line for each finished case, with every sample");
ABSL_FLAG(bool, resume, false, "go on after the last finished case of the journal; finished ones join all outputs");
ABSL_FLAG(double, case_timeout, 0,
          "a case that takes longer, in seconds, has failed, and the run goes on (0: wait for it)");
ABSL_FLAG(bool, supervise, true,
          "run the cases in a process of their own, so that one that crashes or hangs is a failed case (false: for a "
          "debugger)");
ABSL_FLAG(bool, coordinate_descent_tuning, false,
          "compiled implementations: let Inductor try further tilings of its kernels for GPUs");
ABSL_FLAG(bool, fresh_process, false,
          "measure each case, and each repetition of it, in a process of its own: its first step is a first step");
ABSL_FLAG(std::string, describe, "", "json: print families, axes, growth and counters for programs to read, and stop");
ABSL_FLAG(double, wait_quiet, 0,
          "before anything is measured, wait until other programs leave the processors alone, for so many seconds at "
          "most (0: do not wait)");
ABSL_FLAG(bool, doctor, false, "print what disturbs measurements on this machine and how to mend it, and stop");

namespace roofbench {
namespace {

constexpr bool kAside = true;
constexpr bool kQuestion = true;

// Those of Google Benchmark that are not ours to read are passed on.
const std::vector<FlagGroup>& AllGroups() {
  static const auto* groups = new std::vector<FlagGroup>{
      {"What to run",
       {{"suite", "quick|standard|full", ""},
        {"benchmark_filter", "REGEX", "run the cases whose names match (-REGEX: those that do not); also --filter"},
        {"axis", "[FAMILY.]NAME=V1,V2",
         "replace the registered values of an axis (repeatable); 256:4096:x2 doubles, 100:500:+100 adds"},
        {"device", "auto|cpu|cuda[:N]", ""},
        {"threads", "N", ""},
        {"oversubscribe", "", ""},
        {"max_step_time", "SECONDS", ""},
        {"checkpoint", "FOLDER", ""},
        {"draft_checkpoint", "FOLDER", ""},
        {"prompt_ids", "1,2;3|FILE|-", ""},
        {"text_ids", "1,2,3|FILE|-", ""},
        {"stop_ids", "1,2,3", ""},
        {"temperature", "NUMBER", ""},
        {"top_k", "N", ""},
        {"top_p", "SHARE", ""},
        {"min_p", "SHARE", ""},
        {"repetition_penalty", "NUMBER", ""},
        {"sampling_seed", "N", ""},
        {"case_timeout", "SECONDS", "", kAside},
        {"supervise", "true|false", "", kAside},
        {"unverified", "", ""},
        {"list_axes", "", ""},
        {"benchmark_list_tests", "[json]", "print the names of the chosen cases, with their axes as JSON, and stop"}}},
      {"How to measure",
       {{"wait_quiet", "SECONDS", "", kAside},
        {"warmup_iters", "N", ""},
        {"fresh_process", "", ""},
        {"coordinate_descent_tuning", "", ""},
        {"min_samples", "N", ""},
        {"max_samples", "N", ""},
        {"max_time", "SECONDS", ""},
        {"roofs", "reuse|measure|off", ""},
        {"roof_share", "FRACTION", ""},
        {"benchmark_min_time", "SECONDS|Nx", "as --max_time; Nx takes exactly N samples"},
        {"benchmark_min_warmup_time", "SECONDS", "longest automatic warm-up"},
        {"benchmark_repetitions", "N", "independent builds and medians of each case, with mean, median, stddev and cv"},
        {"benchmark_enable_random_interleaving", "", "repetitions of all cases in random order"},
        {"check", "on|off", ""},
        {"seed", "N", ""},
        {"allocator", "tuned|system", ""},
        {"nvtx", "", ""},
        {"reference", "DEVICE", ""},
        {"inject_delay", "FRACTION", ""}}},
      {"What to write",
       {{"benchmark_format", "console|json|csv", "what goes to standard output", kAside},
        {"benchmark_out", "FILE", "also write the results to a file, all of it or nothing", kAside},
        {"benchmark_out_format", "json|csv", "format of that file", kAside},
        {"tokens_out", "FILE", "", kAside},
        {"profile", "FOLDER", "", kAside},
        {"memory_snapshot", "FOLDER", "", kAside},
        {"profile_steps", "N", "", kAside},
        {"profile_sort", "COLUMN", "", kAside},
        {"profile_rows", "N", "", kAside},
        {"profile_depth", "N", "", kAside},
        {"profile_width", "N", "", kAside},
        {"journal", "FILE", "", kAside},
        {"resume", "", "", kAside},
        {"benchmark_time_unit", "us|ms|s|ns",
         "unit of all times in JSON and CSV [us]: compare.py shows whole ones, and compares within one unit", kAside},
        {"benchmark_report_aggregates_only", "", "only mean, median, stddev and cv of the repetitions", kAside},
        {"benchmark_display_aggregates_only", "", "the same, on standard output only", kAside},
        {"benchmark_context", "KEY=VALUE,…", "more facts for the context of the results"},
        {"benchmark_color", "auto|true|false", "colours on the console (NO_COLOR is respected)", kAside},
        {"explain_counters", "", ""},
        {"describe", "json", "", !kAside, kQuestion},
        {"describe_checkpoint", "FOLDER", "", !kAside, kQuestion},
        {"doctor", "", ""},
        {"version", "", "print the versions of the program, the library and LibTorch, and stop"},
        {"help", "", "print this, and stop"}}},
  };
  return *groups;
}

}  // namespace

const std::vector<FlagGroup>& FlagGroups() {
  static const auto* groups = [] {
    auto* linked = new std::vector<FlagGroup>(AllGroups());
    for (FlagGroup& group : *linked) {
      std::erase_if(group.flags, [](const FlagRow& row) {
        return row.doc.empty() && absl::FindCommandLineFlag(View(row.name)) == nullptr;
      });
    }
    return linked;
  }();
  return *groups;
}

const std::map<std::string, std::string>& RefusedLibraryFlags() {
  static const auto* refused = new std::map<std::string, std::string>{
      {"benchmark_counters_tabular", "the console is always a table"},
      {"benchmark_perf_counters", "hardware counters would cover warm-up and roof probes too; use perf stat"},
      {"benchmark_dry_run", "use --benchmark_min_time=1x --check=on"},
  };
  return *refused;
}

const FlagRow* FindFlagRow(std::string_view name) {
  for (const FlagGroup& group : FlagGroups()) {
    for (const FlagRow& row : group.flags) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

std::vector<std::string> KnownFlags() {
  std::vector<std::string> names;
  for (const FlagGroup& group : FlagGroups()) {
    for (const FlagRow& row : group.flags) names.emplace_back(row.name);
  }
  return names;
}

const std::map<std::string, std::string>& FlagAliases() {
  static const auto* aliases =
      new std::map<std::string, std::string>{{"filter", "benchmark_filter"}, {"max-time", "max_time"}, {"h", "help"}};
  return *aliases;
}

const std::map<std::string, std::string>& RenamedFlags() {
  static const auto* renamed = new std::map<std::string, std::string>{{"plant_slowdown", "inject_delay"}};
  return *renamed;
}

}  // namespace roofbench
