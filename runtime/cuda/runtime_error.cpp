// What CUDA's errors mean to the user.
#include "runtime/cuda/runtime_error.h"

#include <fmt/format.h>

namespace flow::cuda {

std::string words_of(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

std::string remedy_for(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "`nvidia-smi` shows who holds the GPU's memory; a smaller batch needs less";
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceAlreadyInUse:
      return "another process holds the GPU alone, or it is set to allow none: `nvidia-smi -q -d "
             "COMPUTE` shows its compute mode";
    case cudaErrorNoDevice:
      return "`nvidia-smi` lists the GPUs; CUDA_VISIBLE_DEVICES may hide them";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return "install a newer NVIDIA driver, and reboot after an update";
    case cudaErrorSystemNotReady:
      return "the GPUs' fabric manager is not running: `systemctl status nvidia-fabricmanager`";
    case cudaErrorNoKernelImageForDevice:
      return "build flow for this GPU: -DCMAKE_CUDA_ARCHITECTURES=native";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "a kernel went wrong: please report it, with what `compute-sanitizer flowrun ...` "
             "prints; the run can go on from its last checkpoint";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
      return "the job runs without graphs: --eager; please report it";
    case cudaErrorLaunchTimeout:
      return "the GPU also drives a display, which stops kernels that take seconds: use another";
    case cudaErrorECCUncorrectable:
      return "the GPU's memory is damaged or was hit: `nvidia-smi -q -d ECC`; the run can go on "
             "from its last checkpoint";
    default:
      return {};
  }
}

void check(cudaError_t error, std::string_view what, std::string_view device) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky is not to meet the next call
  throw RunError(fmt::format("{} failed on {}: {}", what, device, words_of(error)),
                 remedy_for(error));
}

}  // namespace flow::cuda
