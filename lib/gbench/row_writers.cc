// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/row_writers.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace roofbench {
namespace {

// RFC 4180: quoted, quotes doubled. A spreadsheet would execute text that begins like a formula.
std::string Quoted(const std::string& text) {
  const bool like_formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  return absl::StrCat("\"", like_formula ? "'" : "", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Figure(double value) { return absl::StrFormat("%.17g", value); }

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

}  // namespace roofbench
