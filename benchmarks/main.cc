#include "lib/harness/main.h"

int main(int argc, char** argv) { return roofbench::Main(argc, argv); }
