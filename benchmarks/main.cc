// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/main.h"

int main(int argc, char** argv) { roofbench::Leave(roofbench::Main(argc, argv, {.name = "roofbench"})); }
