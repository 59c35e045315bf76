// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters/json_reporter.h"

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/suite/describe.h"

namespace roofbench {

void JsonRows::ReportRuns(const std::vector<Run>& runs) {
  std::ostream& out = GetOutputStream();
  for (const Run& run : runs) {
    std::ostringstream row;
    SetOutputStream(&row);
    benchmark::JSONReporter::ReportRuns({run});
    SetOutputStream(&out);
    std::string text = row.str();
    std::string axes;
    for (const auto& [axis, value] : axes_of_(run)) {
      absl::StrAppend(&axes, "\"", axis,
                      "\": ", AxisJson(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                      ",\n      ");
    }
    // The row's second field. No name can hold it: its quotes would be escaped.
    const std::size_t at = text.find("\"run_name\"");
    if (at != std::string::npos) text.insert(at, axes);
    out << text;
  }
}

}  // namespace roofbench
