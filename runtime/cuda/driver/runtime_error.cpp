// What CUDA's errors mean to the user.
#include "runtime/cuda/driver/runtime_error.h"

#include <fmt/format.h>

namespace flow::cuda {

std::string words_of(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

std::string remedy_for(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "use a smaller batch; `nvidia-smi` shows which processes use GPU memory";
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceAlreadyInUse:
      return "check the compute mode with `nvidia-smi -q -d COMPUTE`; another process may have "
             "exclusive use of the GPU";
    case cudaErrorNoDevice:
      return "list the GPUs with `nvidia-smi`; CUDA_VISIBLE_DEVICES may hide them";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return "install a newer NVIDIA driver, and reboot after an update";
    case cudaErrorSystemNotReady:
      return "start the fabric manager of the GPUs: `systemctl start nvidia-fabricmanager`";
    case cudaErrorNoKernelImageForDevice:
      return "build flow on this machine, or with -DFLOW_CUDA_CODE=all";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "report this bug with the output of `compute-sanitizer flowrun ...`; resume the run "
             "from its last checkpoint";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
      return "run without CUDA graphs: --eager; please report this bug";
    case cudaErrorLaunchTimeout:
      return "use another GPU; this one drives a display, which stops long kernels";
    case cudaErrorECCUncorrectable:
      return "check the GPU memory with `nvidia-smi -q -d ECC`; resume the run from its last "
             "checkpoint";
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
