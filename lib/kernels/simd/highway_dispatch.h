// SPDX-License-Identifier: Apache-2.0
// The element types of a kernel that is written once with Highway, `name(const Work&, Range)`. Highway's tables of
// targets hold plain functions, neither templates nor overloads: hence a name for each type, and macros.
#pragma once

// Beside the template, in the namespace of the target: the instance for one type of work, whose name ends in `suffix`.
#define ROOFBENCH_HIGHWAY_INSTANCE(name, suffix, ...) \
  void name##suffix(const __VA_ARGS__& work, Range range) { name(work, range); }

// Where HWY_ONCE: an overload of `name` that calls the instance for the best target.
#define ROOFBENCH_HIGHWAY_DISPATCH(name, suffix, ...) \
  HWY_EXPORT(name##suffix);                           \
  static void name(const __VA_ARGS__& work, Range range) { HWY_DYNAMIC_DISPATCH(name##suffix)(work, range); }

// Both for Work<float> and Work<Bf16>.
#define ROOFBENCH_HIGHWAY_INSTANCES(name, Work)             \
  ROOFBENCH_HIGHWAY_INSTANCE(name, Work##Fp32, Work<float>) \
  ROOFBENCH_HIGHWAY_INSTANCE(name, Work##Bf16, Work<Bf16>)
#define ROOFBENCH_HIGHWAY_DISPATCHES(name, Work)            \
  ROOFBENCH_HIGHWAY_DISPATCH(name, Work##Fp32, Work<float>) \
  ROOFBENCH_HIGHWAY_DISPATCH(name, Work##Bf16, Work<Bf16>)
