// CUDA C by a C++ compiler, block after block: enough for bench/cuda/*.cu to be run where there is no GPU. No times.
#pragma once
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>
#define __global__
#define __device__
#define __shared__ static  // one block at a time
#define __launch_bounds__(n)

struct dim3 { unsigned x, y = 1, z = 1; dim3(unsigned x, unsigned y = 1) : x(x), y(y) {} };
struct float4 { float x, y, z, w; };
inline thread_local dim3 threadIdx(0, 0), blockIdx(0, 0);
inline dim3 blockDim(1), gridDim(1);
inline std::unique_ptr<std::barrier<>> waiting;
inline void __syncthreads() { waiting->arrive_and_wait(); }

inline void one_by_one(dim3 blocks, dim3 threads, const std::function<void()> &work) {
  blockDim = threads;
  for (blockIdx.y = 0; blockIdx.y < blocks.y; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < blocks.x; blockIdx.x++) {
#ifdef BARRIERS
      waiting = std::make_unique<std::barrier<>>(threads.x);
      std::vector<std::thread> all;
      for (unsigned t = 0; t < threads.x; t++)
        all.emplace_back([&work, t, b = blockIdx] { blockIdx = b; threadIdx.x = t; work(); });
      for (auto &t : all) t.join();
#else
      for (threadIdx.x = 0; threadIdx.x < threads.x; threadIdx.x++) work();
#endif
    }
}

inline float __sinf(float x) { return std::sin(x); }
inline double rsqrt(double x) { return 1/std::sqrt(x); }
inline float rsqrt(float x) { return 1/std::sqrt(x); }
inline double estimate(double x) { return (float)(1/std::sqrt(x)); }  // as short as the hardware's
inline float estimate(float x) { return 1/std::sqrt(x); }
inline void __stcs(float *p, float v) { *p = v; }

typedef int cudaError_t, cudaEvent_t;
enum { cudaSuccess, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
inline const char *cudaGetErrorString(cudaError_t) { return ""; }
inline cudaError_t cudaGetLastError() { return 0; }
template <class T> cudaError_t cudaMalloc(T **p, size_t n) { *p = (T *)std::malloc(n); return !*p; }
inline cudaError_t cudaFree(void *p) { std::free(p); return 0; }
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t n, int) { std::memcpy(to, from, n); return 0; }
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int) { std::memcpy(to, from, n); return 0; }
inline cudaError_t cudaEventCreate(cudaEvent_t *e) { *e = 0; return 0; }
inline cudaError_t cudaEventRecord(cudaEvent_t) { return 0; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return 0; }
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) { *ms = 100; return 0; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return 0; }
