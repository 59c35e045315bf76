#include "lib/cli/main.h"
#include "lib/suite/family_of.h"

// The kernel to measure: z = a x + y.
void ScaleAdd(float a, const float* x, const float* y, float* z, int64_t n) {
  for (int64_t i = 0; i < n; ++i) z[i] = a * x[i] + y[i];
}

namespace roofbench {

struct Vectors {
  at::Tensor x, y, z;
};

workload::Cost WorkAt(const Point& at) {
  const double n = at.Number("n");
  workload::Operation work{.bytes_read = 8 * n, .bytes_written = 4 * n};
  work.flops[Index(workload::Dtype::kFp32)] = 2 * n;
  return {.operations = {work}, .resident_bytes = work.Bytes()};
}

const Registration kScaleAdd =
    FamilyOf<Vectors>("scale_add", "z = 2 x + y")
        .Size("n")
        .Work(WorkAt)
        .Operands([](const Point& at, Inputs& in) {
          const int64_t n = at.Int("n");
          return Vectors{in.Randn({n}), in.Randn({n}), in.Empty({n}, at::kFloat)};
        })
        .Result([](const Vectors& o) { return o.z; })
        .Reference([](const Vectors& o) { return o.x.to(at::kDouble).mul(2).add(o.y); })
        .Impl("eager", [](Vectors& o) { o.z.copy_(o.x).mul_(2).add_(o.y); })
        .Impl("ours", OnCpu([](Vectors& o) {
                ScaleAdd(2, o.x.data_ptr<float>(), o.y.data_ptr<float>(), o.z.data_ptr<float>(), o.x.numel());
              }))
        .Points(Suite::kQuick, {{"impl", {"eager", "ours"}}, {"n", {64_Ki, 1_Mi, 16_Mi}}})
        .Growth("n", 1);

}  // namespace roofbench

int main(int argc, char** argv) { return roofbench::Main(argc, argv); }
