// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/ranges.h"

#include <ATen/record_function.h>

#include <memory>
#include <vector>

#if ROOFBENCH_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace roofbench::observe {
namespace {

bool g_nvtx = false;

// The user scopes that are open on this thread.
std::vector<std::unique_ptr<at::RecordFunction>>& Scopes() {
  thread_local std::vector<std::unique_ptr<at::RecordFunction>> scopes;
  return scopes;
}

// Their names while FollowedRanges is alive.
std::vector<std::string>& Names() {
  thread_local std::vector<std::string> names;
  return names;
}

}  // namespace

void internal::Push(const char* name, std::optional<int64_t> number) {
  const std::string text = number ? std::string(name) + " " + std::to_string(*number) : name;
#if ROOFBENCH_HAS_NVTX
  if (g_nvtx) nvtxRangePushA(text.c_str());
#endif
  if (g_followed) Names().push_back(text);
  if (!g_recorded) return;
  auto scope = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  scope->before(std::string_view(text));
  Scopes().push_back(std::move(scope));
}

void internal::Pop() {
  if (g_recorded && !Scopes().empty()) Scopes().pop_back();
  if (g_followed && !Names().empty()) Names().pop_back();
#if ROOFBENCH_HAS_NVTX
  if (g_nvtx) nvtxRangePop();
#endif
}

#if ROOFBENCH_HAS_NVTX
bool EnableRanges() {
  g_nvtx = true;
  internal::g_enabled = true;
  return true;
}
#else
bool EnableRanges() { return false; }
#endif

std::string OpenRanges() {
  std::string path;
  for (const std::string& name : Names()) {
    if (name == kStepRange) continue;
    if (!path.empty()) path += '/';
    path += name;
  }
  return path;
}

}  // namespace roofbench::observe
