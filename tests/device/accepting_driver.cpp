// In place of libcuda.so.1: loads every kernel and runs none. cuDNN compiles its attention kernels
// at run time and offers them only where a driver loads what it compiled. With this one it makes
// plans for devices that are not here.
namespace {

int loaded;  // what handles point to
constexpr int kSuccess = 0, kNoDevice = 100;

}  // namespace

#define FLOW_LOADS(name) \
  extern "C" int name(void** handle) { return *handle = &loaded, kSuccess; }
FLOW_LOADS(cuLibraryLoadData)
FLOW_LOADS(cuLibraryGetKernel)
FLOW_LOADS(cuLibraryGetModule)
FLOW_LOADS(cuModuleGetFunction)
FLOW_LOADS(cuKernelGetFunction)

#define FLOW_ACCEPTS(name) \
  extern "C" int name() { return kSuccess; }
FLOW_ACCEPTS(cuLibraryUnload)
FLOW_ACCEPTS(cuKernelSetAttribute)
FLOW_ACCEPTS(cuFuncSetAttribute)

// cuDNN looks for these and takes a driver that lacks one for none.
#define FLOW_FAILS(name) \
  extern "C" int name() { return kNoDevice; }
FLOW_FAILS(cuInit)
FLOW_FAILS(cuGetErrorName)
FLOW_FAILS(cuGetErrorString)
FLOW_FAILS(cuCtxGetCurrent)
FLOW_FAILS(cuCtxGetLimit)
FLOW_FAILS(cuCtxPopCurrent)
FLOW_FAILS(cuCtxPushCurrent)
FLOW_FAILS(cuStreamGetCtx)
FLOW_FAILS(cuDriverGetVersion)
FLOW_FAILS(cuLinkCreate)
FLOW_FAILS(cuLinkAddData)
FLOW_FAILS(cuLinkComplete)
FLOW_FAILS(cuLinkDestroy)
FLOW_FAILS(cuLaunchKernel)
FLOW_FAILS(cuLaunchCooperativeKernel)
FLOW_FAILS(cuLaunchKernelEx)
FLOW_FAILS(cuDeviceGetCount)
FLOW_FAILS(cuDeviceGet)
FLOW_FAILS(cuLibraryLoadFromFile)
FLOW_FAILS(cuKernelGetAttribute)
FLOW_FAILS(cuOccupancyMaxPotentialClusterSize)
