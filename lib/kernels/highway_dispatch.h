// Both element types of a kernel that is written once with Highway, `name(const Work<T>&, Range)`. Highway's tables of
// targets hold plain functions, neither templates nor overloads: hence a name for each type, and macros.
#pragma once

// Beside the template, in the namespace of the target.
#define ROOFBENCH_HIGHWAY_INSTANCES(name, Work)                                      \
  void name##Work##Fp32(const Work<float>& work, Range range) { name(work, range); } \
  void name##Work##Bf16(const Work<Bf16>& work, Range range) { name(work, range); }

// Where HWY_ONCE: overloads of `name` that call the instance for the best target.
#define ROOFBENCH_HIGHWAY_DISPATCH(name, Work)                                                                    \
  HWY_EXPORT(name##Work##Fp32);                                                                                   \
  HWY_EXPORT(name##Work##Bf16);                                                                                   \
  static void name(const Work<float>& work, Range range) { HWY_DYNAMIC_DISPATCH(name##Work##Fp32)(work, range); } \
  static void name(const Work<Bf16>& work, Range range) { HWY_DYNAMIC_DISPATCH(name##Work##Bf16)(work, range); }
