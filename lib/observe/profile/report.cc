// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lib/base/json.h"
#include "lib/base/text.h"

namespace roofbench::observe {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMilliseconds = 1e3;

enum class Quantity { kName, kText, kCount, kSeconds, kFlops, kBytes, kShare };

template <typename Row>
struct Column {
  std::string_view key;   // in CSV and JSON
  std::string_view head;  // in text
  Quantity quantity;
  std::variant<std::string Row::*, double Row::*, double (Row::*)() const> value;

  std::string Text(const Row& row) const { return row.*std::get<std::string Row::*>(value); }
  double Number(const Row& row) const {
    if (const auto* const method = std::get_if<double (Row::*)() const>(&value)) return (row.**method)();
    return row.*std::get<double Row::*>(value);
  }
  bool IsText() const { return std::holds_alternative<std::string Row::*>(value); }
};

std::span<const Column<OperatorRow>> ColumnsOf(const std::vector<OperatorRow>& /*rows*/) {
  using Row = OperatorRow;
  static const Column<Row> kColumns[] = {{"name", "operator", Quantity::kName, &Row::name},
                                         {"calls", "calls", Quantity::kCount, &Row::calls},
                                         {"self_ms", "self", Quantity::kSeconds, &Row::self},
                                         {"total_ms", "total", Quantity::kSeconds, &Row::total},
                                         {"self_device_ms", "self device", Quantity::kSeconds, &Row::self_device},
                                         {"total_device_ms", "total device", Quantity::kSeconds, &Row::total_device},
                                         {"flops", "FLOPs", Quantity::kFlops, &Row::flops},
                                         {"input_bytes", "input", Quantity::kBytes, &Row::input_bytes},
                                         {"share", "share", Quantity::kShare, &Row::share},
                                         {"shapes", "shapes", Quantity::kText, &Row::shapes}};
  return kColumns;
}

std::span<const Column<KernelRow>> ColumnsOf(const std::vector<KernelRow>& /*rows*/) {
  using Row = KernelRow;
  static const Column<Row> kColumns[] = {
      {"name", "kernel", Quantity::kName, &Row::name},        {"phase", "phase", Quantity::kText, &Row::phase},
      {"work", "work", Quantity::kText, &Row::work},          {"calls", "calls", Quantity::kCount, &Row::calls},
      {"total_ms", "total", Quantity::kSeconds, &Row::total}, {"mean_ms", "mean", Quantity::kSeconds, &Row::mean},
      {"flops", "FLOPs", Quantity::kFlops, &Row::flops},      {"share", "share", Quantity::kShare, &Row::share},
      {"launch", "launch", Quantity::kText, &Row::launch}};
  return kColumns;
}

std::span<const Column<ModuleRow>> ColumnsOf(const std::vector<ModuleRow>& /*rows*/) {
  using Row = ModuleRow;
  static const Column<Row> kColumns[] = {{"path", "part", Quantity::kName, &Row::path},
                                         {"calls", "calls", Quantity::kCount, &Row::calls},
                                         {"self_ms", "self", Quantity::kSeconds, &Row::self},
                                         {"total_ms", "total", Quantity::kSeconds, &Row::total},
                                         {"total_device_ms", "total device", Quantity::kSeconds, &Row::total_device},
                                         {"flops", "FLOPs", Quantity::kFlops, &Row::flops},
                                         {"share", "share", Quantity::kShare, &Row::share}};
  return kColumns;
}

std::span<const Column<RoutineRow>> ColumnsOf(const std::vector<RoutineRow>& /*rows*/) {
  using Row = RoutineRow;
  static const Column<Row> kColumns[] = {
      {"name", "routine", Quantity::kName, &Row::name},      {"library", "of", Quantity::kText, &Row::library},
      {"calls", "calls", Quantity::kCount, &Row::calls},     {"total_ms", "total", Quantity::kSeconds, &Row::total},
      {"mean_ms", "mean", Quantity::kSeconds, &Row::mean},   {"share", "share", Quantity::kShare, &Row::share},
      {"problem", "problem", Quantity::kText, &Row::problem}};
  return kColumns;
}

// A dash for an unknown figure.
std::string Figure(Quantity quantity, double value) {
  if (!(value > 0)) return "-";
  switch (quantity) {
    case Quantity::kSeconds:
      return HumanTime(value);
    case Quantity::kFlops:
      return HumanRate(value, "FLOP");
    case Quantity::kBytes:
      return HumanBytes(value);
    case Quantity::kShare:
      return absl::StrFormat("%.1f%%", 100 * value);
    default:
      return absl::StrFormat("%.4g", value);
  }
}

// The relative difference of the profiler's time from the stopwatch's: ", +0.3%".
std::string Difference(double profiled, double stopwatch) {
  return profiled > 0 && stopwatch > 0 ? absl::StrFormat(", %+.1f%%", 100 * (profiled / stopwatch - 1)) : "";
}

// A part of the model is indented by its depth.
std::string NameIn(const ModuleRow& row) {
  const std::string name = row.path.substr(row.path.rfind('/') + 1);
  return row.path.empty() ? "(step)" : absl::StrCat(std::string(2 * static_cast<std::size_t>(row.depth), ' '), name);
}
template <typename Row>
std::string NameIn(const Row& row) {
  return row.name;
}

template <typename Row>
std::string CellOf(const Column<Row>& column, const Row& row, std::size_t width) {
  if (column.quantity == Quantity::kName) return Excerpt(NameIn(row), width);
  return column.IsText() ? Excerpt(column.Text(row), width) : Figure(column.quantity, column.Number(row));
}

std::string Line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                 const std::vector<bool>& left) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : "  ", left[i] ? PadRight(cells[i], widths[i]) : PadLeft(cells[i], widths[i]));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

template <typename Row>
std::string Table(const std::vector<Row>& rows, const TextLimits& limits) {
  if (rows.empty()) return "none\n";
  const std::size_t shown = std::min(rows.size(), limits.rows);
  std::vector<std::vector<std::string>> lines(1 + shown);
  std::vector<std::size_t> widths;
  std::vector<bool> left;
  for (const Column<Row>& column : ColumnsOf(rows)) {
    std::vector<std::string> cells = {std::string(column.head)};
    for (std::size_t i = 0; i < shown; ++i) cells.push_back(CellOf(column, rows[i], limits.width));
    // Omit columns without figures, such as those of the device on a CPU.
    const bool is_empty = std::all_of(cells.begin() + 1, cells.end(),
                                      [](const std::string& cell) { return cell.empty() || cell == "-"; });
    if (is_empty && column.quantity != Quantity::kName) continue;
    std::size_t width = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      width = std::max(width, DisplayWidth(cells[i]));
      lines[i].push_back(std::move(cells[i]));
    }
    widths.push_back(width);
    left.push_back(column.IsText());
  }
  std::string text;
  for (const std::vector<std::string>& cells : lines) absl::StrAppend(&text, Line(cells, widths, left));
  if (shown < rows.size()) absl::StrAppend(&text, "… and ", rows.size() - shown, " more (--profile_rows)\n");
  return text;
}

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

double Scaled(Quantity quantity, double value) {
  return quantity == Quantity::kSeconds ? kMilliseconds * value : value;
}

template <typename Row>
std::string Csv(const std::vector<Row>& rows) {
  std::string text;
  for (const Column<Row>& column : ColumnsOf(rows)) absl::StrAppend(&text, text.empty() ? "" : ",", View(column.key));
  for (const Row& row : rows) {
    std::string line;
    for (const Column<Row>& column : ColumnsOf(rows)) {
      const bool is_first = &column == ColumnsOf(rows).data();
      absl::StrAppend(&line, is_first ? "" : ",",
                      column.IsText() ? Quoted(column.Text(row))
                                      : absl::StrFormat("%.9g", Scaled(column.quantity, column.Number(row))));
    }
    absl::StrAppend(&text, "\n", line);
  }
  return text + "\n";
}

template <typename Row>
Json JsonOf(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json& object = list.emplace_back(Json::object());
    for (const Column<Row>& column : ColumnsOf(rows)) {
      if (column.IsText()) {
        object[std::string(column.key)] = column.Text(row);
      } else {
        object[std::string(column.key)] = Scaled(column.quantity, column.Number(row));
      }
    }
  }
  return list;
}

}  // namespace

std::string ProfileText(const ProfileFacts& facts, const ProfileTables& tables, const TextLimits& limits) {
  std::string text = absl::StrCat(facts.case_name, "\n", facts.steps, " steps on ", facts.device, ", ",
                                  roofbench::Counted(static_cast<std::size_t>(facts.threads), "thread"),
                                  "; all figures are of one step\n");
  absl::StrAppend(
      &text, "profiled ", HumanTime(tables.step), " (stopwatch ", HumanTime(facts.stopwatch),
      Difference(tables.step, facts.stopwatch), "), timed ", HumanTime(facts.timed), " without the profiler\n",
      absl::StrFormat("%.1f%% of it in operators and kernels, %.1f%% the profiler's own between them, %.1f%% "
                      "between them without it, too\n",
                      100 * tables.covered, 100 * tables.own, 100 * (1 - tables.covered - tables.own)));
  absl::StrAppend(&text, "\nOperators\n", Table(tables.operators, limits));
  absl::StrAppend(&text, "\nKernels\n", Table(tables.kernels, limits));
  absl::StrAppend(&text, "\nParts of the model\n", Table(tables.modules, limits));
  if (!tables.routines.empty()) {
    absl::StrAppend(&text, "\nRoutines of libraries, by their own clocks, in a step more\n",
                    Table(tables.routines, limits));
  }
  return text;
}

std::string OperatorsCsv(const ProfileTables& tables) { return Csv(tables.operators); }
std::string KernelsCsv(const ProfileTables& tables) { return Csv(tables.kernels); }
std::string ModulesCsv(const ProfileTables& tables) { return Csv(tables.modules); }
std::string RoutinesCsv(const ProfileTables& tables) { return Csv(tables.routines); }

std::string ProfileJson(const ProfileFacts& facts, const ProfileTables& tables) {
  Json phases = Json::array();
  for (const PhaseFacts& phase : facts.phases) {
    phases.push_back({{"name", phase.name},
                      {"timed_ms", kMilliseconds * phase.timed},
                      {"stopwatch_ms", kMilliseconds * phase.stopwatch}});
  }
  const Json profile = {{"roofbench_profile", 1},
                        {"case", facts.case_name},
                        {"device", facts.device},
                        {"threads", facts.threads},
                        {"steps", facts.steps},
                        {"timed_ms", kMilliseconds * facts.timed},
                        {"stopwatch_ms", kMilliseconds * facts.stopwatch},
                        {"profiled_ms", kMilliseconds * tables.step},
                        {"device_ms", kMilliseconds * tables.device},
                        {"covered", tables.covered},
                        {"profiler_own", tables.own},
                        {"phases", phases},
                        {"operators", JsonOf(tables.operators)},
                        {"kernels", JsonOf(tables.kernels)},
                        {"modules", JsonOf(tables.modules)},
                        {"routines", JsonOf(tables.routines)}};
  return profile.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace roofbench::observe
