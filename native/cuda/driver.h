// NVIDIA's driver, opened at run time: no toolkit, header or library of CUDA is needed to build or to run. Declares what is used of
// its interface, by the names of NVIDIA's documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace chairlift {
namespace cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx*;
using CUmodule = struct CUmod*;
using CUfunction = struct CUfunc*;
using CUstream = struct CUstrm*;
using CUevent = struct CUevnt*;
using CUgraph = struct CUgrph*;
using CUgraphExec = struct CUgrphExec*;
using CUmemHandle = unsigned long long;

constexpr CUresult CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NOT_FOUND = 500,
                   CUDA_ERROR_NOT_READY = 600;

struct CUlaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int value;
  };
};
constexpr int CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

struct CUmemLocation {
  int type, id;
};
struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};
constexpr int CU_MEM_ALLOCATION_TYPE_PINNED = 1, CU_MEM_LOCATION_TYPE_DEVICE = 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3;

constexpr int CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
constexpr int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;

// clang-format off
#define CHAIRLIFT_DRIVER_FUNCTIONS(each) \
  each(cuInit, "cuInit", (unsigned flags)) \
  each(cuDriverGetVersion, "cuDriverGetVersion", (int* version)) \
  each(cuGetErrorName, "cuGetErrorName", (CUresult error, const char** name)) \
  each(cuGetErrorString, "cuGetErrorString", (CUresult error, const char** text)) \
  each(cuDeviceGetCount, "cuDeviceGetCount", (int* count)) \
  each(cuDeviceGet, "cuDeviceGet", (CUdevice* device, int ordinal)) \
  each(cuDeviceGetName, "cuDeviceGetName", (char* name, int length, CUdevice device)) \
  each(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, CUdevice device)) \
  each(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t* bytes, CUdevice device)) \
  each(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext* context, CUdevice device)) \
  each(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device)) \
  each(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context)) \
  each(cuMemGetInfo, "cuMemGetInfo_v2", (size_t* free, size_t* total)) \
  each(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr* memory, size_t bytes)) \
  each(cuMemFree, "cuMemFree_v2", (CUdeviceptr memory)) \
  each(cuMemAllocHost, "cuMemAllocHost_v2", (void** memory, size_t bytes)) \
  each(cuMemFreeHost, "cuMemFreeHost", (void* memory)) \
  each(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void* from, size_t bytes, CUstream stream)) \
  each(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void* to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  each(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  each(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream)) \
  each(cuMemAddressReserve, "cuMemAddressReserve", \
       (CUdeviceptr* memory, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags)) \
  each(cuMemAddressFree, "cuMemAddressFree", (CUdeviceptr memory, size_t bytes)) \
  each(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", \
       (size_t* bytes, const CUmemAllocationProp* properties, int option)) \
  each(cuMemCreate, "cuMemCreate", \
       (CUmemHandle* handle, size_t bytes, const CUmemAllocationProp* properties, unsigned long long flags)) \
  each(cuMemRelease, "cuMemRelease", (CUmemHandle handle)) \
  each(cuMemMap, "cuMemMap", (CUdeviceptr at, size_t bytes, size_t offset, CUmemHandle handle, unsigned long long flags)) \
  each(cuMemUnmap, "cuMemUnmap", (CUdeviceptr at, size_t bytes)) \
  each(cuMemSetAccess, "cuMemSetAccess", (CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count)) \
  each(cuModuleLoadData, "cuModuleLoadData", (CUmodule* module, const void* image)) \
  each(cuModuleUnload, "cuModuleUnload", (CUmodule module)) \
  each(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction* function, CUmodule module, const char* name)) \
  each(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value)) \
  each(cuLaunchKernelEx, "cuLaunchKernelEx", \
       (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra)) \
  each(cuStreamCreate, "cuStreamCreate", (CUstream* stream, unsigned flags)) \
  each(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream)) \
  each(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream)) \
  each(cuStreamQuery, "cuStreamQuery", (CUstream stream)) \
  each(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode)) \
  each(cuStreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph* graph)) \
  each(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", \
       (CUgraphExec* executable, CUgraph graph, unsigned long long flags)) \
  each(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec executable, CUstream stream)) \
  each(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec executable)) \
  each(cuGraphDestroy, "cuGraphDestroy", (CUgraph graph)) \
  each(cuEventCreate, "cuEventCreate", (CUevent* event, unsigned flags)) \
  each(cuEventDestroy, "cuEventDestroy_v2", (CUevent event)) \
  each(cuEventRecord, "cuEventRecord", (CUevent event, CUstream stream)) \
  each(cuEventSynchronize, "cuEventSynchronize", (CUevent event)) \
  each(cuEventElapsedTime, "cuEventElapsedTime", (float* milliseconds, CUevent from, CUevent to))
// clang-format on

struct Driver {
#define CHAIRLIFT_DECLARATION(name, symbol, parameters) CUresult(*name) parameters = nullptr;
  CHAIRLIFT_DRIVER_FUNCTIONS(CHAIRLIFT_DECLARATION)
#undef CHAIRLIFT_DECLARATION

  /** Throws where a call failed, with its name and the driver's words. */
  void check(CUresult result, const char* call) const;
};

/** The driver of this machine; throws a DeviceError that says why there is none. */
const Driver& openDriver();

}  // namespace cuda
}  // namespace chairlift
