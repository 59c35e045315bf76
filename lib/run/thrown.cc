// SPDX-License-Identifier: Apache-2.0
#include "lib/run/thrown.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"
#include "lib/ranks/board.h"

namespace roofbench {
namespace {

// Messages of allocators that have no exception type for exhausted memory: LibTorch's on a CPU (with the requested
// bytes), oneDNN's, and the system's.
constexpr std::string_view kNoMemory[] = {"allocate memory", "not enough memory", "out of memory", "out_of_memory",
                                          "Cannot allocate"};

bool SaysNoMemory(const std::string& what) {
  return std::any_of(std::begin(kNoMemory), std::end(kNoMemory),
                     [&](std::string_view text) { return what.find(text) != std::string::npos; });
}

// LibTorch's refusal of a precision that its oneDNN has no kernels for on this processor.
bool SaysNoProcessor(const std::string& what) { return what.find("needs the cpu support") != std::string::npos; }

}  // namespace

absl::Status StatusOfThrown(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string what = FirstLine(torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
  if (dynamic_cast<const ranks::ContactLost*>(&error) != nullptr) return absl::UnavailableError(what);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return absl::ResourceExhaustedError("out of memory");
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || SaysNoMemory(what)) {
    return absl::ResourceExhaustedError(absl::StrCat("out of memory: ", what));
  }
  if (SaysNoProcessor(what)) return absl::UnimplementedError(what);
  return absl::InternalError(what);
}

absl::Status StatusOfThrown() {
  try {
    throw;
  } catch (const std::exception& error) {
    return StatusOfThrown(error);
  } catch (...) {
    return absl::InternalError("threw something other than a std::exception");
  }
}

}  // namespace roofbench
