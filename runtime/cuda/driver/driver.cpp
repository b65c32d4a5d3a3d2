// The real driver, in which each function calls CUDA's runtime and checks its error. Also the texts
// and remedies that users get for CUDA's errors.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cuda/driver/device.h"
#include "runtime/cuda/driver/runtime_error.h"

namespace flow::cuda {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t native(Event event) { return static_cast<cudaEvent_t>(event.handle); }
cudaGraphExec_t native(Graph graph) { return static_cast<cudaGraphExec_t>(graph.handle); }
dim3 native(Extent extent) { return {extent.x, extent.y, extent.z}; }

class CudaDriver : public Driver {
 public:
  explicit CudaDriver(DeviceProperties properties)
      : properties_(std::move(properties)),
        device_(fmt::format("cuda:{} {}", properties_.index, properties_.name)) {
    check(cudaSetDevice(properties_.index), "opening the GPU");
    // Creates the context, because the free memory cannot be queried without one.
    cuda::check(cudaFree(nullptr), "opening the GPU", device_);
  }

  const DeviceProperties& properties() const override { return properties_; }

  size_t free_memory() override {
    size_t free = 0, total = 0;
    call("querying free GPU memory", cudaMemGetInfo, &free, &total);
    return free;
  }

  std::byte* allocate(size_t bytes) override {
    void* memory = nullptr;
    call(fmt::format("allocating {}", human_bytes(bytes)), cudaMalloc, &memory, bytes);
    return static_cast<std::byte*>(memory);
  }

  void release(std::byte* memory) noexcept override {
    cudaSetDevice(properties_.index);
    cudaFree(memory);
  }

  std::byte* allocate_pinned(size_t bytes) override {
    activate();
    void* memory = nullptr;
    const cudaError_t error = cudaMallocHost(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw RunError(fmt::format("cannot allocate {} of pinned host memory for {}",
                                 human_bytes(bytes), device_),
                     "free host memory, or raise `ulimit -l`");
    }
    check(error, "allocating pinned host memory");
    return static_cast<std::byte*>(memory);
  }

  void release_pinned(std::byte* memory) noexcept override { cudaFreeHost(memory); }

  Stream create_stream() override {
    cudaStream_t stream = nullptr;
    call("creating a stream", cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
    return {stream};
  }

  void destroy(Stream stream) noexcept override { cudaStreamDestroy(native(stream)); }

  Event create_event() override { return create_event(cudaEventDisableTiming); }
  Event create_timed_event() override { return create_event(cudaEventDefault); }

  void destroy(Event event) noexcept override { cudaEventDestroy(native(event)); }

  void copy(void* to, const void* from, size_t bytes, Stream stream) override {
    call("a copy", cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, native(stream));
  }

  void copy_rows(void* to, const void* from, const RowCopy& rows, Stream stream) override {
    constexpr size_t kMostDistance = std::numeric_limits<int32_t>::max();  // CUDA's limit
    if (rows.distance > kMostDistance) return copy_row_by_row(to, from, rows, stream);
    call("a copy", cudaMemcpy2DAsync, to, rows.distance, from, rows.bytes, rows.bytes, rows.rows,
         cudaMemcpyDefault, native(stream));
  }

  void clear(void* memory, size_t bytes, Stream stream) override {
    call("clearing memory", cudaMemsetAsync, memory, 0, bytes, native(stream));
  }

  void launch(const KernelCall& kernel, Stream stream) override {
    constexpr size_t kShared = 48 << 10;  // bytes that need no opt-in
    if (kernel.shared_bytes > kShared)
      call(kernel.name, cudaFuncSetAttribute, kernel.function,
           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kernel.shared_bytes));
    call(kernel.name, cudaLaunchKernel, kernel.function, native(kernel.grid), native(kernel.block),
         kernel.arguments.data(), kernel.shared_bytes, native(stream));
  }

  void load(const KernelCall& kernel) override {
    cudaFuncAttributes attributes;
    call(kernel.name, cudaFuncGetAttributes, &attributes, kernel.function);
  }

  void record(Event event, Stream stream) override {
    call("recording an event", cudaEventRecord, native(event), native(stream));
  }

  void wait(Stream stream, Event event) override {
    call("waiting for an event", cudaStreamWaitEvent, native(stream), native(event), 0U);
  }

  void synchronize(Event event) override { call("a call", cudaEventSynchronize, native(event)); }
  void synchronize(Stream stream) override {
    call("a call", cudaStreamSynchronize, native(stream));
  }

  bool is_reached(Event event) override {
    activate();
    const cudaError_t error = cudaEventQuery(native(event));
    if (error != cudaErrorNotReady) check(error, "a call");
    return error == cudaSuccess;
  }

  double milliseconds_between(Event first, Event second) override {
    float milliseconds = 0;
    call("timing a call", cudaEventElapsedTime, &milliseconds, native(first), native(second));
    return milliseconds;
  }

  void begin_capture(Stream stream) override {
    // The mode is relaxed because libraries load their kernels during a capture and other threads
    // keep running.
    call("starting a capture", cudaStreamBeginCapture, native(stream),
         cudaStreamCaptureModeRelaxed);
  }

  Graph end_capture(Stream stream) override {
    cudaGraph_t graph = nullptr;
    call("capturing a call", cudaStreamEndCapture, native(stream), &graph);
    cudaGraphExec_t instance = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&instance, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "instantiating a captured call");
    // Uploads the graph now instead of at its first use.
    const cudaError_t uploaded = cudaGraphUpload(instance, native(stream));
    if (uploaded != cudaSuccess) cudaGraphExecDestroy(instance);
    check(uploaded, "uploading a captured call");
    return {instance};
  }

  void launch(Graph graph, Stream stream) override {
    call("launching a captured call", cudaGraphLaunch, native(graph), native(stream));
  }

  void destroy(Graph graph) noexcept override { cudaGraphExecDestroy(native(graph)); }

 private:
  /// CUDA's current device belongs to the thread; setting the same device again costs nanoseconds.
  void activate() { check(cudaSetDevice(properties_.index), "using the GPU"); }

  /// Calls a CUDA function for this device.
  template <typename... Parameters>
  void call(std::string_view what, cudaError_t (*function)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
    activate();
    check(function(arguments...), what);
  }

  void copy_row_by_row(void* to, const void* from, const RowCopy& rows, Stream stream) {
    for (size_t i = 0; i < rows.rows; ++i)
      copy(static_cast<std::byte*>(to) + i * rows.distance,
           static_cast<const std::byte*>(from) + i * rows.bytes, rows.bytes, stream);
  }

  Event create_event(unsigned flags) {
    cudaEvent_t event = nullptr;
    call("creating an event", cudaEventCreateWithFlags, &event, flags);
    return {event};
  }

  /// Allocations are not the only calls that may run out of memory: graphs and kernels need some
  /// when they are loaded.
  void check(cudaError_t error, std::string_view what) const {
    if (error == cudaErrorMemoryAllocation) out_of_memory(what);
    cuda::check(error, what, device_);
  }

  [[noreturn]] void out_of_memory(std::string_view what) const {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw RunError(fmt::format("{} failed: out of memory on {}: {} of {} free", what, device_,
                               human_bytes(free), human_bytes(properties_.memory)),
                   remedy_for(cudaErrorMemoryAllocation));
  }

  DeviceProperties properties_;
  std::string device_;  // "cuda:0 NVIDIA H100 80GB HBM3"
};

}  // namespace

std::unique_ptr<Driver> open_device(int index) {
  const Machine machine = find_devices();
  if (machine.devices.empty()) throw RunError(machine.problem, machine.remedy);
  const size_t count = machine.devices.size();
  if (index < 0 || static_cast<size_t>(index) >= count) {
    std::string list;
    for (const DeviceProperties& device : machine.devices)
      list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", device.index, device.name);
    throw RunError(fmt::format("no GPU {}: this machine has {} ({})", index,
                               counted(static_cast<uint64_t>(count), "GPU"), list));
  }
  const DeviceProperties& device = machine.devices[static_cast<size_t>(index)];
  if (device.major * 10 + device.minor < 75)
    throw RunError(fmt::format("{} has compute capability {}.{}; flow requires 7.5", device.name,
                               device.major, device.minor),
                   "use a GPU of the Turing generation or newer, or run on the CPU");
  return std::make_unique<CudaDriver>(device);
}

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
  cudaGetLastError();  // Clears a non-sticky error, so that the next call does not report it.
  throw RunError(fmt::format("{} failed on {}: {}", what, device, words_of(error)),
                 remedy_for(error));
}

}  // namespace flow::cuda
