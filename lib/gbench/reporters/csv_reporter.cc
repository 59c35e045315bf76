// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters/csv_reporter.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lib/gbench/library.h"

namespace roofbench {
namespace {

// RFC 4180: quoted, quotes doubled. A spreadsheet would run a text that begins like a formula.
std::string Quoted(const std::string& text) {
  const bool like_formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  return absl::StrCat("\"", like_formula ? "'" : "", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Figure(double value) { return absl::StrFormat("%.17g", value); }

}  // namespace

bool CsvTable::ReportContext(const Context& /*context*/) { return true; }

void CsvTable::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    runs_.push_back(run);
    for (const auto& [name, counter] : run.counters) counters_.insert(name);
    for (const auto& [axis, value] : axes_of_(run)) {
      if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) axes_.push_back(axis);
    }
  }
}

void CsvTable::Finalize() {
  auto& out = GetOutputStream();
  // A counter of some rows may be called like an axis of others: one column has both.
  for (const std::string& axis : axes_) counters_.erase(axis);
  out << "name,iterations,real_time,cpu_time,time_unit,label,error_occurred,error_message";
  for (const std::string& axis : axes_) out << ',' << Quoted(axis);
  for (const std::string& counter : counters_) out << ',' << Quoted(counter);
  out << '\n';
  for (const Run& run : runs_) {
    const bool error = IsError(run);
    const bool is_ratio = run.run_type == Run::RT_Aggregate && run.aggregate_unit == benchmark::kPercentage;
    out << Quoted(run.benchmark_name()) << ',';
    if (error) {
      out << ",,,,";
    } else if (is_ratio) {
      out << run.iterations << ',' << Figure(run.real_accumulated_time) << ',' << Figure(run.cpu_accumulated_time)
          << ",,";
    } else {
      out << run.iterations << ',' << Figure(run.GetAdjustedRealTime()) << ',' << Figure(run.GetAdjustedCPUTime())
          << ',' << benchmark::GetTimeUnitString(run.time_unit) << ',';
    }
    out << Quoted(run.report_label) << ',' << (error ? "true" : "false") << ',' << Quoted(ErrorMessage(run));
    const auto write_counter = [&](const std::string& name) {
      const auto counter = run.counters.find(name);
      if (counter != run.counters.end() && !error) out << Figure(counter->second.value);
    };
    const AxisValues values = axes_of_(run);
    for (const std::string& axis : axes_) {
      out << ',';
      const auto value = std::find_if(values.begin(), values.end(), [&](const auto& one) { return one.first == axis; });
      if (value == values.end()) {
        write_counter(axis);
      } else {
        int64_t number = 0;
        out << (absl::SimpleAtoi(value->second, &number) ? absl::StrCat(number) : Quoted(value->second));
      }
    }
    for (const std::string& name : counters_) {
      out << ',';
      write_counter(name);
    }
    out << '\n';
  }
}

}  // namespace roofbench
