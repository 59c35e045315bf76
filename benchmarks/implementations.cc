#include "benchmarks/implementations.h"

#include "lib/harness/graph.h"

namespace roofbench {

absl::Status ImplementationSupports(const Point& at, const Device& device) {
  const std::string& impl = at.Text("impl");
  if (impl == "graph") return SupportsGraph(device);
  if (device.kind() == "cpu") return absl::OkStatus();
  if (impl == "native") {
    return absl::UnimplementedError("our own kernel for this operation runs on the CPU only; impl:eager does not");
  }
  if (impl == "onednn") return absl::UnimplementedError("oneDNN runs on processors alone; impl:eager does not");
  return absl::OkStatus();
}

}  // namespace roofbench
