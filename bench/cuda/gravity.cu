// How fast can softened gravity of all pairs be?  Tiles of points in shared memory, K targets a thread, the points in S parts
// whose sums are added in order. nvcc -O3 -arch=sm_90 gravity.cu; arguments: bodies, steps, runs.
#include "timing.cuh"

constexpr int THREADS = 128;
template <class T> struct alignas(16) Point { T x, y, z, m; };
template <class T> struct Vector { T x, y, z; };

// r^-3 from r^2 three ways: what CUDA calls rsqrt, the estimate of the hardware alone, and that with a series.
struct Library { template <class T> static __device__ T inverse_cube(T r2) { T y = rsqrt(r2); return y*y*y; } };
struct Estimate {
  static __device__ float inverse_cube(float r2) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(r2));
    return y*y*y;
  }
  // y is right to 2^-20 or so; r^-3 = y^3 (1 - e)^-3/2 with e = 1 - r^2 y^2, of which the cube is left out
  static __device__ double inverse_cube(double r2) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(r2));
    double u = y*y, e = fma(-r2, u, 1.0), y3 = y*u;
    return fma(y3*e, fma(e, 1.875, 1.5), y3);
  }
};

// Part blockIdx.y of what pulls at each target.
template <class T, class Root, int K> __global__ void __launch_bounds__(THREADS)
pull(const Point<T> *points, Vector<T> *partial, int n, int part, T eps2) {
  __shared__ Point<T> tile[THREADS];
  int first = blockIdx.x*THREADS*K + threadIdx.x, begin = blockIdx.y*part;
  Point<T> mine[K];
  Vector<T> a[K];
#pragma unroll
  for (int k = 0; k < K; k++) {
    mine[k] = points[first + k*THREADS];
    a[k] = {0, 0, 0};
  }
  for (int j0 = begin; j0 < begin + part; j0 += THREADS) {
    tile[threadIdx.x] = points[j0 + threadIdx.x];
    __syncthreads();
#pragma unroll 16
    for (int j = 0; j < THREADS; j++) {
      Point<T> other = tile[j];
#pragma unroll
      for (int k = 0; k < K; k++) {
        T dx = other.x - mine[k].x, dy = other.y - mine[k].y, dz = other.z - mine[k].z;
        T f = other.m*Root::inverse_cube(dx*dx + (dy*dy + (dz*dz + eps2)));
        a[k].x += f*dx;
        a[k].y += f*dy;
        a[k].z += f*dz;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < K; k++) partial[(size_t)blockIdx.y*n + first + k*THREADS] = a[k];
}

template <class T> __global__ void kick_drift(Point<T> *points, Vector<T> *v, const Vector<T> *partial, int n, int parts, T h, T dt) {
  int i = blockIdx.x*blockDim.x + threadIdx.x;
  if (i >= n) return;
  Vector<T> a = partial[i], u = v[i];
  for (int s = 1; s < parts; s++) {
    Vector<T> b = partial[(size_t)s*n + i];
    a = {a.x + b.x, a.y + b.y, a.z + b.z};
  }
  v[i] = u = {u.x + h*a.x, u.y + h*a.y, u.z + h*a.z};
  points[i].x += dt*u.x;
  points[i].y += dt*u.y;
  points[i].z += dt*u.z;
}

template <class T, class Root, int K> void row(const char *what, int n, int parts, long steps, int runs) {
  if (n % (THREADS*K) || n % (THREADS*parts)) return;
  std::vector<Point<T>> points(n);
  std::vector<Vector<T>> v(n);
  Uniform u{1};
  for (auto &x : points) x = {(T)u(-1, 1), (T)u(-1, 1), (T)u(-1, 1), (T)(u(1, 2)/n)};
  for (auto &x : v) x = {(T)u(-0.1, 0.1), (T)u(-0.1, 0.1), (T)u(-0.1, 0.1)};
  OnDevice<Point<T>> at(points);
  OnDevice<Vector<T>> speed(v), partial((size_t)n*parts);
  T dt = (T)1e-3, eps2 = (T)(0.05*0.05);
  auto step = [&](T h, T d) {
    launch(pull<T, Root, K>, dim3(n/(THREADS*K), parts), dim3(THREADS), (const Point<T> *)at.at, partial.at, n, n/parts, eps2);
    launch(kick_drift<T>, dim3((n + 255)/256), dim3(256), at.at, speed.at, (const Vector<T> *)partial.at, n, parts, h, d);
  };
  auto before = [&] { at.write(points); speed.write(v); };
  double ms = median_ms(runs, before, [&] {
    step(dt/2, dt);  // half a kick and a drift, then whole ones; the last half kick would not move anything
    for (long s = 1; s < steps; s++) step(dt, dt);
  });
  double sum = 0;
  for (auto &x : at.read()) sum += std::abs((double)x.x) + std::abs((double)x.y) + std::abs((double)x.z);
  std::string variant = std::string(what) + ", " + std::to_string(K) + (K > 1 ? " targets" : " target") + " a thread, points in " + std::to_string(parts) + " parts";
  print({"gravity", precision<T>(), variant, "ps per ordered pair", ms*1e9/((double)n*(n - 1)*steps), sum, n, steps});
}

template <class T> void rows(int n, long steps, int runs) {
  for (int parts : {1, 4, 16}) row<T, Library, 1>("rsqrt", n, parts, steps, runs);
  for (int parts : {1, 4, 16}) row<T, Estimate, 1>("estimate", n, parts, steps, runs);
  for (int parts : {4, 16}) row<T, Estimate, 2>("estimate", n, parts, steps, runs);
  for (int parts : {4, 16, 32}) row<T, Estimate, 4>("estimate", n, parts, steps, runs);
}

int main(int argc, char **argv) {
  int n = number(argc, argv, 1, 65536), runs = number(argc, argv, 3, 9);
  long steps = number(argc, argv, 2, 4);
  rows<float>(n, steps, runs);
  rows<double>(n, steps, runs);
}
