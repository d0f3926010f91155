// How fast can double wells in a Langevin bath be?  BAOAB, Philox4x32-10 and Box & Muller as in bench/heat.c, all steps of K
// members in the registers of one thread. nvcc -O3 -arch=sm_90 wells.cu; arguments: members, steps, runs.
#include "timing.cuh"

static __device__ __forceinline__ double normal(uint32_t index, uint32_t step, uint32_t stream, uint32_t seed) {
  uint32_t a = index, b = step, c = 0, d = stream, k = seed, l = 0;
#pragma unroll
  for (int n = 0; n < 10; n++) {
    uint32_t high = __umulhi(0xD2511F53u, a), low = 0xD2511F53u*a, up = __umulhi(0xCD9E8D57u, c), down = 0xCD9E8D57u*c;
    a = up ^ b ^ k;
    b = down;
    c = high ^ d ^ l;
    d = low;
    k += 0x9E3779B9u;
    l += 0xBB67AE85u;
  }
  double u = ((double)(a >> 5)*67108864.0 + (double)(b >> 6))*0x1p-53;
  double v = ((double)(c >> 5)*67108864.0 + (double)(d >> 6))*0x1p-53;
  return sqrt(-2.0*log(1.0 - u))*cospi(2.0*v);
}

template <int K> __global__ void wells(double *q, double *p, long n, long steps, double dt, double c, double width, uint32_t seed) {
  long i = blockIdx.x*(long)blockDim.x + threadIdx.x, stride = n/K;
  if (i >= stride) return;
  double x[K], y[K], h = 0.5*dt;
#pragma unroll
  for (int k = 0; k < K; k++) {
    x[k] = q[i + k*stride];
    y[k] = p[i + k*stride] - h*4.0*x[k]*(x[k]*x[k] - 1.0);
  }
  for (long s = 0; s < steps; s++)
#pragma unroll
    for (int k = 0; k < K; k++) {
      double z = x[k] + h*y[k];
      double w = c*y[k] + width*normal((uint32_t)(i + k*stride), (uint32_t)s, 0xA0000000u, seed);
      z += h*w;
      y[k] = w - dt*4.0*z*(z*z - 1.0);
      x[k] = z;
    }
#pragma unroll
  for (int k = 0; k < K; k++) {
    q[i + k*stride] = x[k];
    p[i + k*stride] = y[k] + h*4.0*x[k]*(x[k]*x[k] - 1.0);
  }
}

template <int K> void row(long n, long steps, int runs) {
  double dt = 0.05, c = std::exp(-dt), width = std::sqrt(-std::expm1(-2.0*dt));
  std::vector<double> start(n), still(n, 0.0);
  for (long i = 0; i < n; i++) start[i] = -1.0 + i*(2.0/(n - 1));
  OnDevice<double> q(start), p(still);
  for (int threads : {128, 256}) {
    double ms = median_ms(runs, [&] { q.write(start), p.write(still); }, [&] {
      launch(wells<K>, dim3((n/K + threads - 1)/threads), dim3(threads), q.at, p.at, n, steps, dt, c, width, 7u);
    });
    std::string shape = std::to_string(K) + " members a thread, blocks of " + std::to_string(threads);
    print({"wells", "float64", shape, "ps per member-step", ms*1e9/((double)n*steps), total(q.read()), n, steps});
  }
}

int main(int argc, char **argv) {
  long n = number(argc, argv, 1, 1L << 22), steps = number(argc, argv, 2, 200);
  int runs = (int)number(argc, argv, 3, 7);
  row<1>(n, steps, runs);
  row<2>(n, steps, runs);
}
