// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/main.h"

int main(int argc, char** argv) { return roofbench::Main(argc, argv, {.name = "roofbench"}); }
