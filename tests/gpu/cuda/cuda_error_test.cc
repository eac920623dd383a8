#include "gpu/backends/cuda/cuda_error.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/gpu/cuda/fake_cudart.h"

namespace ringfeed {
namespace {

struct Translation {
  cudaError_t error;
  StatusCode code;
};

TEST(CudaError, EachKindHasItsCode) {
  fake_cudart::Restart();
  const std::vector<Translation> translations = {
      {cudaSuccess, StatusCode::kOk},
      {cudaErrorMemoryAllocation, StatusCode::kResourceExhausted},
      {cudaErrorLaunchOutOfResources, StatusCode::kResourceExhausted},
      {cudaErrorInvalidValue, StatusCode::kInvalidArgument},
      {cudaErrorInvalidResourceHandle, StatusCode::kInvalidArgument},
      {cudaErrorInvalidDevice, StatusCode::kInvalidArgument},
      {cudaErrorHostMemoryAlreadyRegistered, StatusCode::kInvalidArgument},
      {cudaErrorStreamCaptureUnsupported, StatusCode::kInvalidArgument},
      {cudaErrorNoDevice, StatusCode::kNotFound},
      {cudaErrorNotPermitted, StatusCode::kPermissionDenied},
      {cudaErrorDevicesUnavailable, StatusCode::kPermissionDenied},
      {cudaErrorNotSupported, StatusCode::kUnsupported},
      {cudaErrorInsufficientDriver, StatusCode::kUnsupported},
      {cudaErrorNoKernelImageForDevice, StatusCode::kUnsupported},
      {cudaErrorCudartUnloading, StatusCode::kCancelled},
      {cudaErrorOperatingSystem, StatusCode::kIoError},
      {cudaErrorIllegalAddress, StatusCode::kDeviceLost},
      {cudaErrorECCUncorrectable, StatusCode::kDeviceLost},
      {cudaErrorLaunchFailure, StatusCode::kDeviceLost},
      {cudaErrorContained, StatusCode::kDeviceLost},
      {cudaErrorTensorMemoryLeak, StatusCode::kDeviceLost},
      {cudaErrorUnknown, StatusCode::kDeviceLost},
  };
  for (const auto& [error, code] : translations) {
    EXPECT_EQ(StatusFromCuda(error, "try").code(), code) << error;
    EXPECT_EQ(IsSticky(error), code == StatusCode::kDeviceLost) << error;
  }
}

TEST(CudaError, TheMessageHasWhatWasTriedAndCudasOwnWords) {
  fake_cudart::Restart();
  const Status status = StatusFromCuda(cudaErrorMemoryAllocation, "allocate 4096 bytes");
  EXPECT_EQ(status.message(), "allocate 4096 bytes: out of memory (cudaErrorMemoryAllocation)");
}

TEST(CudaError, TheRemedyIsNamedWhereThereIsOne) {
  fake_cudart::Restart();
  const auto message = [](cudaError_t error) { return StatusFromCuda(error, "try").message(); };
  EXPECT_NE(message(cudaErrorNoKernelImageForDevice).find("RINGFEED_CUDA_ARCHITECTURES"),
            std::string::npos);
  EXPECT_NE(message(cudaErrorStreamCaptureUnsupported).find("BindThread"), std::string::npos);
  EXPECT_NE(message(cudaErrorSystemNotReady).find("fabricmanager"), std::string::npos);
  EXPECT_NE(message(cudaErrorIllegalAddress).find("work that ran on the device before"),
            std::string::npos)
      << "the call that reports it is not to blame";
}

// Else the next launch, of whomever, would report it.
TEST(CudaError, TheErrorIsTakenBackFromTheThread) {
  fake_cudart::Restart();
  fake_cudart::FailNth("cudaMalloc", 1, cudaErrorMemoryAllocation);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, 64);
  ASSERT_EQ(fake_cudart::LastError(), cudaErrorMemoryAllocation);
  EXPECT_FALSE(StatusFromCuda(error, "allocate").ok());
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
}

}  // namespace
}  // namespace ringfeed
