// SPDX-License-Identifier: Apache-2.0
#include "lib/results/start_facts.h"

#include <unistd.h>

#include <array>
#include <ctime>
#include <string>

#include "lib/base/text.h"

namespace roofbench {

RunFacts StartFacts() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> time{};
  const std::size_t length = std::strftime(time.data(), time.size(), "%FT%T+00:00", &utc);
  RunFacts facts = {{"started", std::string(time.data(), length)}};
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) facts.emplace_back("host_name", Printable(host.data()));
  return facts;
}

}  // namespace roofbench
