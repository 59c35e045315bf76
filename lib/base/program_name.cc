// SPDX-License-Identifier: Apache-2.0
#include "lib/base/program_name.h"

#include <utility>

namespace roofbench {
namespace {

std::string& Name() {
  static auto* name = new std::string("roofbench");
  return *name;
}

}  // namespace

const std::string& ProgramName() { return Name(); }

void SetProgramName(std::string name) { Name() = std::move(name); }

}  // namespace roofbench
