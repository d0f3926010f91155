// How fast can a D2Q9 fluid be, and how fast is a copy of the same bytes?  One lattice is pulled from and another written,
// a site a thread. nvcc -O3 -arch=sm_90 fluid.cu; arguments: sites of a side, steps, runs.
#include "timing.cuh"

constexpr double W[9] = {4/9., 1/9., 1/9., 1/9., 1/9., 1/36., 1/36., 1/36., 1/36.};

struct Cached { static __device__ void store(float *p, float v) { *p = v; } };
struct Past   { static __device__ void store(float *p, float v) { __stcs(p, v); } };  // what is written is read a step later

// n is a power of two: a neighbour's index is masked, no division and no branch.
template <class Store> __global__ void stream_collide(const float *__restrict__ in, float *__restrict__ out, int n, float om) {
  constexpr int CX[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, CY[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  int x = blockIdx.x*blockDim.x + threadIdx.x, y = blockIdx.y;
  size_t plane = (size_t)n*n, at = (size_t)y*n + x;
  float f[9];
#pragma unroll
  for (int k = 0; k < 9; k++) f[k] = in[k*plane + (size_t)((y - CY[k]) & (n - 1))*n + ((x - CX[k]) & (n - 1))];
  float rho = f[0] + (f[1] + f[3]) + (f[2] + f[4]) + (f[5] + f[6]) + (f[7] + f[8]), r = 1/rho;
  float ux = ((f[1] - f[3]) + ((f[5] - f[7]) + (f[8] - f[6])))*r, uy = ((f[2] - f[4]) + ((f[5] - f[7]) - (f[8] - f[6])))*r;
  float w1 = om*rho*(1/9.f), w2 = w1/4, c1 = 1 - om, ux3 = 3*ux, uy3 = 3*uy, ux2 = 4.5f*ux*ux, uy2 = 4.5f*uy*uy;
  float b = 1 - (ux2 + uy2)*(1/3.f);
  float px = w1*(b + ux2), py = w1*(b + uy2), qx = w1*ux3, qy = w1*uy3, bb = b + ux2 + uy2, xy = ux3*uy3;
  float p5 = w2*(bb + xy), p6 = w2*(bb - xy), g5 = w2*(ux3 + uy3), g6 = w2*(ux3 - uy3);
  float g[9] = {4*w1*b, px + qx, py + qy, px - qx, py - qy, p5 + g5, p6 - g6, p5 - g5, p6 + g6};
#pragma unroll
  for (int k = 0; k < 9; k++) Store::store(&out[k*plane + at], c1*f[k] + g[k]);
}

// As many bytes read and written as by a step of the fluid: four numbers a thread, all nine planes.
__global__ void copy(const float4 *__restrict__ in, float4 *__restrict__ out, size_t n) {
  size_t i = blockIdx.x*(size_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// The same nine planes by the threads of the fluid: what its way of reaching memory could give at most.
__global__ void copy_planes(const float *__restrict__ in, float *__restrict__ out, int n) {
  size_t plane = (size_t)n*n, at = (size_t)blockIdx.y*n + blockIdx.x*blockDim.x + threadIdx.x;
  float f[9];
#pragma unroll
  for (int k = 0; k < 9; k++) f[k] = in[k*plane + at];
#pragma unroll
  for (int k = 0; k < 9; k++) out[k*plane + at] = f[k];
}

int main(int argc, char **argv) {
  int n = number(argc, argv, 1, 4096), runs = number(argc, argv, 3, 9);
  long steps = number(argc, argv, 2, 100);  // even: the first lattice is the last that is written
  if (n < 256 || n & (n - 1) || steps % 2) return std::fprintf(stderr, "a power of two from 256 and an even number of steps\n"), 1;
  size_t plane = (size_t)n*n;
  std::vector<float> start(9*plane);
  Uniform u{1};
  for (int k = 0; k < 9; k++)
    for (size_t i = 0; i < plane; i++) start[k*plane + i] = (float)(W[k]*(1 + u(-0.01, 0.01)));
  OnDevice<float> first(start), a(9*plane), b(9*plane);
  auto again = [&] { CHECK(cudaMemcpyAsync(a.at, first.at, 9*plane*sizeof(float), cudaMemcpyDeviceToDevice)); };
  auto sites = [&](double ms) { return plane*(double)steps/ms*1e-6; };
  auto step_row = [&](const char *variant, auto work) {
    double ms = median_ms(runs, again, [&] {
      for (long s = 0; s < steps; s += 2) work(a.at, b.at), work(b.at, a.at);
    });
    print({"d2q9", "float32", variant, "billion sites a second", sites(ms), total(a.read()), n, steps});
  };
  for (int threads : {128, 256}) {
    dim3 blocks(n/threads, n);
    std::string words = "blocks of " + std::to_string(threads);
    step_row(("pull, " + words).c_str(), [&](const float *x, float *y) { launch(stream_collide<Cached>, blocks, dim3(threads), x, y, n, 1.25f); });
    step_row(("pull, stores past the cache, " + words).c_str(), [&](const float *x, float *y) { launch(stream_collide<Past>, blocks, dim3(threads), x, y, n, 1.25f); });
    step_row(("copy, planes, " + words).c_str(), [&](const float *x, float *y) { launch(copy_planes, blocks, dim3(threads), x, y, n); });
  }
  size_t quarter = 9*plane/4;
  step_row("copy", [&](const float *x, float *y) { launch(copy, dim3((quarter + 255)/256), dim3(256), (const float4 *)x, (float4 *)y, quarter); });
  step_row("copy, cudaMemcpy", [&](const float *x, float *y) { CHECK(cudaMemcpyAsync(y, x, 9*plane*sizeof(float), cudaMemcpyDeviceToDevice)); });
}
