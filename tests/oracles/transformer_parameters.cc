// Prints the closed-form number of parameters of a preset, for test_flop_counter.py.

#include <cstdio>
#include <cstdlib>

#include "lib/workload/transformer.h"

int main(int argc, char** argv) {
  const auto shape = argc == 2 ? roofbench::workload::FindTransformer(argv[1]) : std::nullopt;
  if (!shape) return EXIT_FAILURE;
  std::printf("%.0f\n", shape->Parameters().Total());
  return EXIT_SUCCESS;
}
