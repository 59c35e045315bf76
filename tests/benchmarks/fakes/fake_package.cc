// SPDX-License-Identifier: Apache-2.0
// A package of LibTorch's Inductor as its loader sees it (aoti_runtime/interface.h, whose types are pointers here): the
// softmax of each row, on the device that the loader names. The environment variable FAKE_PACKAGE_CALLS names a file
// that records the calls.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_softmax.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace {

using Error = int32_t;
constexpr Error kSuccess = 0;
constexpr Error kFailure = 1;

void Note(const std::string& call) {
  if (const char* const path = std::getenv("FAKE_PACKAGE_CALLS")) std::ofstream(path, std::ios::app) << call << "\n";
}

Error RunSoftmax(const std::string& how, at::Tensor** inputs, at::Tensor** outputs) {
  Note(how);
  const std::unique_ptr<at::Tensor> x(inputs[0]);  // handles are stolen
  outputs[0] = new at::Tensor(at::_softmax(*x, 1, false));
  return kSuccess;
}

}  // namespace

extern "C" {

Error AOTInductorModelContainerCreateWithDevice(void** container, std::size_t models, const char* device,
                                                const char* /*kernels*/) {
  Note(std::string("made for ") + device + ", " + std::to_string(models) + " at once");
  *container = nullptr;
  return kSuccess;
}

Error AOTInductorModelContainerDelete(void* /*container*/) { return kSuccess; }

Error AOTInductorModelContainerRun(void* /*container*/, at::Tensor** inputs, std::size_t /*count*/,
                                   at::Tensor** outputs, std::size_t /*results*/, void* /*stream*/, void* /*proxy*/) {
  return RunSoftmax("run in turns", inputs, outputs);
}

Error AOTInductorModelContainerRunSingleThreaded(void* /*container*/, at::Tensor** inputs, std::size_t /*count*/,
                                                 at::Tensor** outputs, std::size_t /*results*/, void* /*stream*/,
                                                 void* /*proxy*/) {
  return RunSoftmax("run by one thread", inputs, outputs);
}

Error AOTInductorModelContainerGetNumOutputs(void* /*container*/, std::size_t* count) {
  *count = 1;
  return kSuccess;
}

Error AOTInductorModelContainerGetNumConstants(void* /*container*/, std::size_t* count) {
  *count = 0;
  return kSuccess;
}

// Needed only for packages that hold constants.
Error AOTInductorModelContainerGetConstantName() { return kFailure; }
Error AOTInductorModelContainerGetConstantOriginalFQN() { return kFailure; }
Error AOTInductorModelContainerGetConstantFromFolded() { return kFailure; }
Error AOTInductorModelContainerGetConstantType() { return kFailure; }
Error AOTInductorModelContainerGetConstantDtype() { return kFailure; }
Error AOTInductorModelContainerGetConstantDataSize() { return kFailure; }
Error AOTInductorModelContainerExtractConstantsMap() { return kFailure; }
Error AOTInductorModelContainerUpdateUserManagedConstantBuffer() { return kFailure; }
Error AOTInductorModelContainerUpdateUserManagedConstantBufferPairs() { return kFailure; }
Error AOTInductorModelContainerUpdateConstantBuffer() { return kFailure; }
Error AOTInductorModelContainerUpdateInactiveConstantBuffer() { return kFailure; }
Error AOTInductorModelContainerFreeInactiveConstantBuffer() { return kFailure; }
Error AOTInductorModelContainerRunConstantFolding() { return kFailure; }
Error AOTInductorModelContainerSwapConstantBuffer() { return kFailure; }
Error AOTInductorModelContainerGetNumInputs() { return kFailure; }
Error AOTInductorModelContainerGetInputName() { return kFailure; }
Error AOTInductorModelContainerGetOutputName() { return kFailure; }
Error AOTInductorModelContainerGetCallSpec() { return kFailure; }
Error AOTInductorModelContainerGetConstantsBlobSize() { return kFailure; }
Error AOTInductorModelUpdateConstantsFromBlob() { return kFailure; }

}  // extern "C"
