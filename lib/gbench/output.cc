// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

// RFC 4180: quoted, quotes doubled. A spreadsheet would execute text that begins like a formula.
std::string Quoted(const std::string& text) {
  const bool like_formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  return absl::StrCat("\"", like_formula ? "'" : "", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Figure(double value) { return absl::StrFormat("%.17g", value); }

std::unique_ptr<RowWriter> MakeWriter(const std::string& format, const Options& options, std::ostream& out) {
  const TimeUnit unit = TimeUnitNamed(options.time_unit);
  if (format == "json") return std::make_unique<JsonRows>(out, unit);
  return std::make_unique<CsvTable>(out, unit);
}

// "out.json" -> "out.comparable.json".
std::string ComparablePath(const std::string& path) {
  return absl::StrCat(std::string(absl::StripSuffix(path, ".json")), ".comparable.json");
}

struct OutputName {
  std::string flag;
  std::string path;
  std::string of = {};    // the main file that it accompanies; empty: it is itself a given file
  bool numbered = false;  // also with an appended number
};

// The path with symbolic links resolved, as far as it exists.
std::string Place(const std::string& path) {
  std::error_code error;
  const absl::StatusOr<std::string> target = FollowLinks(path);
  // Absolute first: weakly_canonical leaves a relative path as it is when nothing of it exists.
  const std::filesystem::path absolute = std::filesystem::absolute(target.ok() ? *target : path, error);
  const std::filesystem::path place = std::filesystem::weakly_canonical(absolute, error);
  return error ? path : place.string();
}

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat one {};
  struct stat other {};
  if (stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  }
  return Place(a) == Place(b);
}

bool IsStandardOutput(const std::string& path) {
  struct stat one {};
  struct stat other {};
  return stat(path.c_str(), &one) == 0 && fstat(STDOUT_FILENO, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

std::vector<OutputName> GivenFiles(const Options& options) {
  std::vector<OutputName> names = {
      {"--benchmark_out", options.out}, {"--journal", options.journal}, {"--tokens_out", options.tokens_out}};
  // Other kinds of files accept several writers, and have no accompanying files.
  std::erase_if(names, [](const OutputName& name) { return name.path.empty() || !IsReplaceable(name.path); });
  return names;
}

std::vector<OutputName> AccompanyingFiles(const Options& options, const OutputName& given) {
  std::vector<OutputName> names = {{given.flag, absl::StrCat(given.path, View(kUnfinished)), given.path}};
  if (given.flag == "--benchmark_out" && options.out_format == "json") {
    names.push_back({given.flag, ComparablePath(given.path), given.path});
  }
  if (given.flag == "--journal") names.push_back({given.flag, absl::StrCat(given.path, ".previous"), given.path, true});
  return names;
}

bool Collide(const OutputName& given, const OutputName& other) {
  if (IsSameFile(given.path, other.path)) return true;
  return other.numbered && absl::StartsWith(Place(given.path), absl::StrCat(Place(other.path), "."));
}

}  // namespace

JsonRows::JsonRows(std::ostream& out, TimeUnit unit) : out_(out), unit_(std::move(unit)) {
  header_.SetOutputStream(&out);
  header_.SetErrorStream(&out);
}

void JsonRows::Begin(const benchmark::BenchmarkReporter::Context& context) { header_.ReportContext(context); }

void JsonRows::Add(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const std::string text = RowJson(row, unit_).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    out_ << (std::exchange(is_empty_, false) ? "" : ",\n") << "    " << absl::StrReplaceAll(text, {{"\n", "\n    "}});
  }
}

void JsonRows::Finish() { header_.Finalize(); }

CsvTable::CsvTable(std::ostream& out, TimeUnit unit) : out_(out), unit_(std::move(unit)) {}

void CsvTable::Add(const std::vector<Row>& rows) { rows_.insert(rows_.end(), rows.begin(), rows.end()); }

void CsvTable::Finish() {
  std::vector<std::string> axes;  // in the order of their appearance
  std::set<std::string> counters;
  for (const Row& row : rows_) {
    for (const auto& [name, value] : row.counters) counters.insert(name);
    for (const auto& [axis, value] : row.Axes()) {
      if (std::ranges::find(axes, axis) == axes.end()) axes.push_back(axis);
    }
  }
  // A counter of some rows may have the name of another row's axis: they share a column.
  for (const std::string& axis : axes) counters.erase(axis);
  out_ << "name,iterations,real_time,cpu_time,time_unit,label,error_occurred,error_message";
  for (const std::string& axis : axes) out_ << ',' << Quoted(axis);
  for (const std::string& counter : counters) out_ << ',' << Quoted(counter);
  out_ << '\n';
  for (const Row& row : rows_) {
    out_ << Quoted(row.Name()) << ',';
    if (!row.error.empty()) {
      out_ << ",,,,";
    } else {
      const double scale = row.IsRatio() ? 1 : unit_.per_second;
      out_ << (row.aggregate.empty() ? 1 : row.repetitions) << ',' << Figure(row.seconds * scale) << ','
           << Figure(row.cpu_seconds * scale) << ',' << (row.IsRatio() ? "" : unit_.name) << ',';
    }
    out_ << Quoted(row.label) << ',' << (row.error.empty() ? "false" : "true") << ',' << Quoted(row.error);
    std::map<std::string, std::string> cells;
    for (const auto& [name, value] : row.counters) cells[name] = Figure(value);
    for (const auto& [axis, value] : row.Axes()) {
      int64_t number = 0;
      cells[axis] = absl::SimpleAtoi(value, &number) ? absl::StrCat(number) : Quoted(value);
    }
    for (const std::string& axis : axes) out_ << ',' << cells[axis];
    for (const std::string& counter : counters) out_ << ',' << cells[counter];
    out_ << '\n';
  }
}

Output::Output(const Session& session, const Options& options, SharedState& state)
    : session_(session), options_(options), state_(state) {
  for (std::size_t i = 0; i < session.plan().size(); ++i) shown_before_.push_back(state.shown(i));
  if (options.format == "console") {
    console_ = std::make_unique<ConsoleTable>(std::cout, session.reference(), WantsColor(options.color),
                                              TerminalWidth(STDOUT_FILENO));
  } else {
    sinks_.push_back({.writer = MakeWriter(options.format, options, whole_)});
  }
}

absl::Status Output::Open() {
  if (!options_.tokens_out.empty()) {
    texts_ = std::make_unique<AtomicFile>();
    if (absl::Status status = texts_->Open(options_.tokens_out); !status.ok()) return status;
  }
  if (options_.out.empty()) return absl::OkStatus();
  if (absl::Status status = AddFile(options_.out, /*errors=*/true); !status.ok()) return status;
  if (options_.out_format != "json" || !IsReplaceable(options_.out)) return absl::OkStatus();
  return AddFile(ComparablePath(options_.out), /*errors=*/false);
}

absl::Status Output::AddFile(const std::string& path, bool errors) {
  auto file = std::make_unique<AtomicFile>();
  if (absl::Status status = file->Open(path); !status.ok()) return status;
  std::unique_ptr<RowWriter> writer = MakeWriter(options_.out_format, options_, file->stream());
  sinks_.push_back({.writer = std::move(writer), .file = std::move(file), .errors = errors});
  return absl::OkStatus();
}

bool Output::ReportContext(const Context& context) {
  for (const Sink& sink : sinks_) sink.writer->Begin(context);
  return true;
}

void Output::ReportRuns(const std::vector<Run>& runs) {
  // Each case is registered as a separate family, in the order of the plan. The library's aggregates are ignored.
  if (runs.empty() || runs.front().run_type == Run::RT_Aggregate) return;
  const auto index = static_cast<std::size_t>(runs.front().family_index);
  const std::vector<Row> repetitions =
      RepetitionRows(KeyOf(session_.plan().at(index)), index, session_.OutcomesOf(index));
  const std::vector<Row> aggregates = AggregateRows(repetitions);
  for (const std::vector<Row>* rows : {&repetitions, &aggregates}) {
    const bool left_out = rows == &repetitions && !aggregates.empty();
    if (rows->empty() || (left_out && options_.aggregates_only)) continue;
    const bool is_displayed = !left_out || !options_.display_aggregates_only;
    if (is_displayed) Show(*rows);
    std::vector<Row> results;
    std::ranges::copy_if(*rows, std::back_inserter(results), [](const Row& row) { return row.error.empty(); });
    for (const Sink& sink : sinks_) {
      if (is_displayed || sink.file != nullptr) sink.writer->Add(sink.errors ? *rows : results);
    }
  }
}

void Output::Show(const std::vector<Row>& rows) {
  if (console_ == nullptr) return;
  const std::size_t index = rows.front().index;
  if (shown_before_.at(index)) return console_->ContinueAfter(rows.front());
  console_->Add(rows);
  state_.SetShown(index);
}

absl::Status Output::WriteTexts() {
  std::map<std::string, std::string> lines;
  for (std::size_t index = 0; index < session_.plan().size(); ++index) {
    const std::deque<Outcome>& outcomes = session_.OutcomesOf(index);
    if (!outcomes.empty() && !outcomes.back().text.empty()) lines[outcomes.back().name] = outcomes.back().text;
  }
  for (const auto& [name, text] : lines) {
    for (const auto& line : absl::StrSplit(text, '\n')) {
      texts_->stream() << name;
      for (const auto& column : absl::StrSplit(line, '\t')) {
        texts_->stream() << '\t' << Printable(std::string(column));
      }
      texts_->stream() << '\n';
    }
  }
  return texts_->Finish();
}

void Output::Finalize() {
  for (const Sink& sink : sinks_) {
    sink.writer->Finish();
    if (sink.file == nullptr) continue;
    absl::Status status = sink.file->Finish();
    if (status_.ok()) status_ = status;
  }
  if (texts_ != nullptr) {
    absl::Status status = WriteTexts();
    if (status_.ok()) status_ = status;
  }
  std::cout << whole_.str() << std::flush;
  if (status_.ok() && !std::cout) status_ = absl::UnavailableError("cannot write to standard output");
}

absl::Status CheckOutputNames(const Options& options) {
  const std::vector<OutputName> all = GivenFiles(options);
  for (const OutputName& given : all) {
    const std::string said = absl::StrCat(given.flag, "=", given.path);
    if (IsStandardOutput(given.path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(said, " is the file that standard output goes to; choose another, or --benchmark_format"));
    }
    for (const OutputName& other : all) {
      if (&other == &given) continue;
      std::vector<OutputName> names = AccompanyingFiles(options, other);
      names.push_back(other);
      for (const OutputName& name : names) {
        if (!Collide(given, name)) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            said, " is a file of ", name.flag, "=", other.path,
            name.of.empty() ? "" : absl::StrCat(", which puts ", name.path, " next to it"), "; choose another name"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace roofbench
