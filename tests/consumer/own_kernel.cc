#include "lib/harness/family.h"
#include "lib/harness/main.h"

// The kernel that somebody brings: z = a x + y.
void ScaleAdd(float a, const float* x, const float* y, float* z, int64_t n) {
  for (int64_t i = 0; i < n; ++i) z[i] = a * x[i] + y[i];
}

namespace roofbench {

workload::Cost ScaleAddCost(const Point& at) {
  const double n = at.Number("n");
  workload::Operation work{.bytes_read = 8 * n, .bytes_written = 4 * n};
  work.flops[Index(workload::Dtype::kFp32)] = 2 * n;
  return {.operations = {work}, .resident_bytes = work.Bytes()};
}

absl::StatusOr<Case> BuildScaleAdd(const Point& at, Inputs& in) {
  const int64_t n = at.Int("n");
  const at::Tensor x = in.Randn({n});
  const at::Tensor y = in.Randn({n});
  const at::Tensor z = in.Empty({n}, at::kFloat);
  return Case{.step = [=] { ScaleAdd(2, x.data_ptr<float>(), y.data_ptr<float>(), z.data_ptr<float>(), n); },
              .result = [=] { return std::vector{z}; },
              .reference = [=] { return std::vector{x.to(at::kDouble).mul(2).add(y)}; }};
}

const Registration kScaleAdd(Family("scale_add", "z = 2 x + y")
                                 .Axis({.name = "n"})
                                 .Grid(Suite::kQuick, {{"n", {"65536", "16777216"}}})
                                 .Cost(ScaleAddCost)
                                 .Build(BuildScaleAdd));

}  // namespace roofbench

int main(int argc, char** argv) { return roofbench::Main(argc, argv); }
