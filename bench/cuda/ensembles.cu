// How fast can pendulums, Hénon–Heiles stars and charges in a dipole be?  Steps with merged halves, all steps of K systems in the registers
// of one thread. nvcc -O3 -arch=sm_90 ensembles.cu; arguments: systems, steps, runs.
#include "timing.cuh"

struct Libdevice { static __device__ double sine(double x) { return sin(x); }
                   static __device__ float sine(float x) { return sinf(x); } };
struct Hardware  { static __device__ float sine(float x) { return __sinf(x); } };  // absolute error 2^-21 within a turn, worse beyond

template <class T, class Sine, int K> __global__ void pendulums(T *q, T *p, long n, long steps, T dt) {
  long i = blockIdx.x*(long)blockDim.x + threadIdx.x, stride = n/K;
  if (i >= stride) return;
  T x[K], v[K];
#pragma unroll
  for (int k = 0; k < K; k++) {
    x[k] = q[i + k*stride];
    v[k] = p[i + k*stride] - dt/2*Sine::sine(x[k]);
  }
  for (long s = 1; s < steps; s++)
#pragma unroll
    for (int k = 0; k < K; k++) {
      x[k] += dt*v[k];
      v[k] -= dt*Sine::sine(x[k]);
    }
#pragma unroll
  for (int k = 0; k < K; k++) {
    x[k] += dt*v[k];
    q[i + k*stride] = x[k];
    p[i + k*stride] = v[k] - dt/2*Sine::sine(x[k]);
  }
}

// H = (px² + py² + x² + y²)/2 + x²y - y³/3
template <class T, int K> __global__ void stars(T *qx, T *qy, T *px, T *py, long n, long steps, T dt) {
  long i = blockIdx.x*(long)blockDim.x + threadIdx.x, stride = n/K;
  if (i >= stride) return;
  T x[K], y[K], u[K], v[K];
#pragma unroll
  for (int k = 0; k < K; k++) {
    long at = i + k*stride;
    x[k] = qx[at];
    y[k] = qy[at];
    u[k] = px[at] - dt/2*(x[k]*(1 + 2*y[k]));
    v[k] = py[at] - dt/2*(x[k]*x[k] + y[k]*(1 - y[k]));
  }
  for (long s = 1; s < steps; s++)
#pragma unroll
    for (int k = 0; k < K; k++) {
      x[k] += dt*u[k];
      y[k] += dt*v[k];
      u[k] -= dt*(x[k]*(1 + 2*y[k]));
      v[k] -= dt*(x[k]*x[k] + y[k]*(1 - y[k]));
    }
#pragma unroll
  for (int k = 0; k < K; k++) {
    long at = i + k*stride;
    x[k] += dt*u[k];
    y[k] += dt*v[k];
    qx[at] = x[k];
    qy[at] = y[k];
    px[at] = u[k] - dt/2*(x[k]*(1 + 2*y[k]));
    py[at] = v[k] - dt/2*(x[k]*x[k] + y[k]*(1 - y[k]));
  }
}

// Boris' step in the field of a dipole along z: half a drift, a turn, drifts between turns
template <class T, int K> __global__ void charges(T *qx, T *qy, T *qz, T *px, T *py, T *pz, long n, long steps, T dt, T moment) {
  long i = blockIdx.x*(long)blockDim.x + threadIdx.x, stride = n/K;
  if (i >= stride) return;
  T x[K], y[K], z[K], u[K], v[K], w[K];
#pragma unroll
  for (int k = 0; k < K; k++) {
    long at = i + k*stride;
    u[k] = px[at], v[k] = py[at], w[k] = pz[at];
    x[k] = qx[at] + dt/2*u[k], y[k] = qy[at] + dt/2*v[k], z[k] = qz[at] + dt/2*w[k];
  }
  T h = dt/2*moment;
  for (long s = 0; s < steps; s++)
#pragma unroll
    for (int k = 0; k < K; k++) {
      T r2 = x[k]*x[k] + y[k]*y[k] + z[k]*z[k], r = rsqrt(r2), r3 = r*r*r, c = h*r3*r*r;
      T tx = -3*c*x[k]*z[k], ty = -3*c*y[k]*z[k], tz = c*(r2 - 3*z[k]*z[k]);
      T f = 2/(1 + tx*tx + ty*ty + tz*tz);
      T a = u[k] + (v[k]*tz - w[k]*ty), b = v[k] + (w[k]*tx - u[k]*tz), d = w[k] + (u[k]*ty - v[k]*tx);
      u[k] += f*(b*tz - d*ty), v[k] += f*(d*tx - a*tz), w[k] += f*(a*ty - b*tx);
      x[k] += dt*u[k], y[k] += dt*v[k], z[k] += dt*w[k];
    }
#pragma unroll
  for (int k = 0; k < K; k++) {
    long at = i + k*stride;
    qx[at] = x[k] - dt/2*u[k], qy[at] = y[k] - dt/2*v[k], qz[at] = z[k] - dt/2*w[k];
    px[at] = u[k], py[at] = v[k], pz[at] = w[k];
  }
}

struct Sizes { long n, steps; int runs; };
static std::string shape(const char *what, int K, int threads) {
  return std::string(what) + (K > 1 ? std::to_string(K) + " systems a thread, blocks of " : "a system a thread, blocks of ") + std::to_string(threads);
}

// A kernel on fresh copies of the start; the fastest of some shapes is what it can do.
template <class T, class Kernel> void time_it(const char *row, std::string variant, const Sizes &s, int K, int threads,
                                              const std::vector<std::vector<T>> &start, Kernel kernel) {
  std::vector<OnDevice<T> *> state;
  for (auto &v : start) state.push_back(new OnDevice<T>(v));
  auto before = [&] { for (size_t k = 0; k < start.size(); k++) state[k]->write(start[k]); };
  double ms = median_ms(s.runs, before, [&] { kernel(dim3((s.n/K + threads - 1)/threads), dim3(threads), state); });
  print({row, precision<T>(), variant, "ps per system-step", ms*1e9/((double)s.n*s.steps), total(state[0]->read()), s.n, s.steps});
  for (auto *d : state) delete d;
}

template <class T, class Sine, int K> void pendulum_row(const char *what, const Sizes &s) {
  std::vector<std::vector<T>> start = {uniform<T>(s.n, 1, -2, 2), uniform<T>(s.n, 2, -1, 1)};
  for (int threads : {128, 256})
    time_it<T>("pendulum", shape(what, K, threads), s, K, threads, start, [&](dim3 g, dim3 b, auto &d) {
      launch(pendulums<T, Sine, K>, g, b, d[0]->at, d[1]->at, s.n, s.steps, (T)0.01);
    });
}
template <class T, int K> void star_row(const Sizes &s) {
  std::vector<std::vector<T>> start;
  for (int k = 1; k <= 4; k++) start.push_back(uniform<T>(s.n, k, -0.1, 0.1));
  for (int threads : {128, 256})
    time_it<T>("henon_heiles", shape("", K, threads), s, K, threads, start, [&](dim3 g, dim3 b, auto &d) {
      launch(stars<T, K>, g, b, d[0]->at, d[1]->at, d[2]->at, d[3]->at, s.n, s.steps, (T)0.01);
    });
}
template <class T, int K> void charge_row(const Sizes &s) {
  std::vector<std::vector<T>> start;
  for (int k = 1; k <= 6; k++) start.push_back(k <= 3 ? uniform<T>(s.n, k, 1.5, 2.5) : uniform<T>(s.n, k, -0.3, 0.3));
  for (int threads : {128, 256})
    time_it<T>("dipole", shape("", K, threads), s, K, threads, start, [&](dim3 g, dim3 b, auto &d) {
      launch(charges<T, K>, g, b, d[0]->at, d[1]->at, d[2]->at, d[3]->at, d[4]->at, d[5]->at, s.n, s.steps, (T)0.01, (T)60);
    });
}

int main(int argc, char **argv) {
  Sizes s{number(argc, argv, 1, 1L << 22), number(argc, argv, 2, 1000), (int)number(argc, argv, 3, 9)};
  pendulum_row<double, Libdevice, 1>("sin, ", s);
  pendulum_row<double, Libdevice, 2>("sin, ", s);
  pendulum_row<float, Libdevice, 1>("sinf, ", s);
  pendulum_row<float, Libdevice, 2>("sinf, ", s);
  pendulum_row<float, Hardware, 1>("__sinf, ", s);
  pendulum_row<float, Hardware, 2>("__sinf, ", s);
  star_row<double, 1>(s);
  star_row<double, 2>(s);
  star_row<double, 4>(s);
  star_row<float, 2>(s);
  charge_row<double, 1>(s);
  charge_row<double, 2>(s);
}
