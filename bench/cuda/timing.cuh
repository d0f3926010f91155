// What do the programs beside this share?  Checked calls, numbers to start from, times by events, one line of JSON for a row.
#pragma once
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

inline void check(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  std::exit(1);
}
#define CHECK(x) check(x, #x)

template <class... P, class... A> void launch(void (*kernel)(P...), dim3 blocks, dim3 threads, A... args) {
  kernel<<<blocks, threads>>>(args...);
  CHECK(cudaGetLastError());
}

// Uniform numbers by Knuth's 64-bit linear congruence, the upper 53 bits of each state: bench/gpu.py makes the same.
struct Uniform {
  uint64_t x;
  double operator()(double low, double high) {
    x = x*6364136223846793005u + 1442695040888963407u;
    return (x >> 11)*0x1p-53*(high - low) + low;
  }
};
template <class T> std::vector<T> uniform(size_t n, uint64_t seed, double low, double high) {
  Uniform u{seed};
  std::vector<T> out(n);
  for (T &v : out) v = (T)u(low, high);
  return out;
}

template <class T> struct OnDevice {
  T *at = nullptr;
  size_t n;
  explicit OnDevice(size_t n) : n(n) { CHECK(cudaMalloc(&at, n*sizeof(T))); }
  explicit OnDevice(const std::vector<T> &v) : OnDevice(v.size()) { write(v); }
  OnDevice(const OnDevice &) = delete;
  ~OnDevice() { cudaFree(at); }
  void write(const std::vector<T> &v) { CHECK(cudaMemcpy(at, v.data(), n*sizeof(T), cudaMemcpyHostToDevice)); }
  std::vector<T> read() const {
    std::vector<T> v(n);
    CHECK(cudaMemcpy(v.data(), at, n*sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
};

// Median milliseconds of `work` on the device; `before` is not timed. Runs before WARM milliseconds do not count: clocks rise.
constexpr double WARM = 100;
inline double median_ms(int runs, const std::function<void()> &before, const std::function<void()> &work) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<double> all;
  double spent = 0;
  for (int k = 0; k < runs;) {
    before();
    CHECK(cudaEventRecord(begin));
    work();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (spent >= WARM) all.push_back(ms), k++;
    spent += ms;
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  std::sort(all.begin(), all.end());
  return all[all.size()/2];
}

// What was found for a row: `sum` is of what came out, for others to compare theirs with.
struct Row {
  std::string row, precision, variant, unit;
  double value, sum;
  long n, steps;
};
inline void print(const Row &r) {
  std::printf("{\"row\": \"%s\", \"precision\": \"%s\", \"variant\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", "
              "\"n\": %ld, \"steps\": %ld, \"sum\": %.17g}\n",
              r.row.c_str(), r.precision.c_str(), r.variant.c_str(), r.value, r.unit.c_str(), r.n, r.steps, r.sum);
  std::fflush(stdout);
}
template <class T> const char *precision();
template <> inline const char *precision<float>() { return "float32"; }
template <> inline const char *precision<double>() { return "float64"; }
template <class T> double total(const std::vector<T> &v) {
  double s = 0;
  for (T x : v) s += std::abs((double)x);
  return s;
}
inline long number(int argc, char **argv, int k, long usual) { return k < argc ? std::atol(argv[k]) : usual; }
