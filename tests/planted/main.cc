// Cases that go wrong in every way, between cases that go well: a program to test the harness with.
#include <ATen/ops/empty.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "lib/harness/family.h"
#include "lib/harness/main.h"
#include "lib/workload/stream.h"

namespace roofbench {
namespace {

struct Foreign {};  // what is thrown need not be an exception

void Misbehave(const std::string& how) {
  constexpr int64_t kPebibyte = int64_t{1} << 50;
  constexpr int64_t kMebibyte = 1 << 20;
  if (how == "throws") throw std::runtime_error("the kernel broke");
  if (how == "foreign") throw Foreign{};
  if (how == "overrun") at::empty({kPebibyte}, at::kByte);
  if (how == "bad_alloc") throw std::bad_alloc();
  if (how == "creeps") {
    // Small pieces, each of which there is room for: what the system would answer by ending the process.
    std::vector<at::Tensor> pieces;
    while (true) pieces.push_back(at::empty({64 * kMebibyte}, at::kByte));
  }
  if (how == "hangs") {
    std::cerr << "hanging" << std::endl;
    while (true) sleep(1);
  }
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const std::string how = at.Text("how");
  if (how == "refuses") return absl::UnimplementedError("no kernel for this");
  const at::Tensor x = in.Randn({1024});
  const at::Tensor y = in.Empty({1024}, workload::Dtype::kFp32);
  return Case{.step =
                  [=] {
                    Misbehave(how);
                    y.copy_(x).add_(how == "wrong" ? 1.001 : 1.0);
                  },
              .result = [=] { return std::vector{y}; },
              .reference = [=] { return std::vector{x.to(at::kDouble).add(1)}; }};
}

// The order is that of the run: a good case follows each bad one.
const std::vector<std::string> kHow = {"good",    "throws",    "foreign", "wrong", "refuses",
                                       "overrun", "bad_alloc", "creeps",  "hangs", "last"};

const Registration kPlanted(Family("planted", "what goes wrong")
                                .Axis({.name = "how", .choices = kHow})
                                .Grid(Suite::kQuick, {{"how", kHow}, {"cache", {"warm"}}})
                                .Cost([](const Point&) { return workload::CopyStream{4096}.Cost(); })
                                .Build(Build));

}  // namespace
}  // namespace roofbench

int main(int argc, char** argv) { return roofbench::Main(argc, argv); }
