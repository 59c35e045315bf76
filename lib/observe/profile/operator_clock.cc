// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/operator_clock.h"

#include <ATen/record_function.h>

#include <chrono>
#include <memory>
#include <string_view>

namespace roofbench::observe {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Of each thread its own: autograd hands callbacks to the threads that work for it.
struct Counted {
  int depth = 0;
  SteadyClock::time_point start = {};
  SteadyClock::duration sum = {};
};
thread_local Counted g_counted;

// Ranges of phases and parts of a model are no work themselves.
bool Counts(const at::RecordFunction& function) {
  return function.scope() != at::RecordScope::USER_SCOPE ||
         std::string_view(function.name()).starts_with(kKernelPrefix);
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  if (Counts(function) && g_counted.depth++ == 0) g_counted.start = SteadyClock::now();
  return nullptr;
}

void End(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (Counts(function) && --g_counted.depth == 0) g_counted.sum += SteadyClock::now() - g_counted.start;
}

}  // namespace

OperatorClock::OperatorClock() : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(Begin, End))) {
  g_counted = {};
}

OperatorClock::~OperatorClock() { at::removeCallback(handle_); }

double OperatorClock::seconds() const { return std::chrono::duration<double>(g_counted.sum).count(); }

}  // namespace roofbench::observe
