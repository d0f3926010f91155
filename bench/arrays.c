// Hand-written references of array systems. Vectors are as wide as the machine's. Leapfrog with merged half kicks:
// n times a drift by d and a kick by h; a run begins with d = 0 and h = dt/2. Sizes are multiples of the width; arrays begin at cache lines.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __AVX512F__
#define W 8
#else
#define W 4
#endif
typedef double V __attribute__((vector_size(W*8)));
typedef int64_t I __attribute__((vector_size(W*8)));
#define IN static inline __attribute__((always_inline))
IN V load(const double *p) { V v; memcpy(&v, p, sizeof v); return v; }
IN void store(double *p, V v) { memcpy(p, &v, sizeof v); }
IN V splat(double x) { return x - (V){0}; }
IN void stream(double *p, V v) {  // past the caches: p is aligned
#if defined(__AVX512F__)
  _mm512_stream_pd(p, (__m512d)v);
#elif defined(__AVX__)
  _mm256_stream_pd(p, (__m256d)v);
#else
  store(p, v);
#endif
}

// --- gravity: positions and velocities as (3, N), softened -----------------------------------------------------
// AVX-512 has an estimate y of x**-0.5, and x**-1.5 is y**3 times a series in e = 1 - x*y*y, |e| < 1.2e-4. The shorter
// estimate of AVX2 needs one term more and two conversions, and took 1.2 times as long as a root and a division (Zen 3).
IN V inverse_cube(V x) {
#ifdef __AVX512F__
  V y = (V)_mm512_rsqrt14_pd((__m512d)x), u = y*y, e = 1 - x*u, y3 = y*u;
  return (y3*e)*(e*(e*(35./16) + 15./8) + 1.5) + y3;
#else
  V r;
  for (int k = 0; k < W; k++) r[k] = sqrt(x[k]);
  return 1/(x*r);
#endif
}
IN double total(V v) { double s = 0; for (int k = 0; k < W; k++) s += v[k]; return s; }
#define ROWS 2  // of a tile: what they read and add to at j is loaded once
static void pull_tiles(const double *q, const double *m, double *a, int64_t N, double e2) {
  const double *x = q, *y = q + N, *z = q + 2*N;
  double *ax = a, *ay = a + N, *az = a + 2*N;
  memset(a, 0, 3*N*sizeof *a);
  for (int64_t I0 = 0; I0 < N; I0 += W) {
    V xj = load(x+I0), yj = load(y+I0), zj = load(z+I0), mj = load(m+I0);
    for (int k = 0; k < W; k++) {  // the diagonal: every pair twice, and itself with no distance
      V dx = xj - x[I0+k], dy = yj - y[I0+k], dz = zj - z[I0+k], f = mj*inverse_cube(dx*dx + (dy*dy + (dz*dz + e2)));
      ax[I0+k] += total(f*dx); ay[I0+k] += total(f*dy); az[I0+k] += total(f*dz);
    }
    for (int64_t i = I0; i < I0 + W; i += ROWS) {
      V sx[ROWS], sy[ROWS], sz[ROWS], xi[ROWS], yi[ROWS], zi[ROWS], mi[ROWS];
      for (int k = 0; k < ROWS; k++) {
        sx[k] = sy[k] = sz[k] = splat(0);
        xi[k] = splat(x[i+k]); yi[k] = splat(y[i+k]); zi[k] = splat(z[i+k]); mi[k] = splat(m[i+k]);
      }
      for (int64_t j = I0 + W; j < N; j += W) {
        V bx = load(ax+j), by = load(ay+j), bz = load(az+j);
        for (int k = 0; k < ROWS; k++) {
          V dx = load(x+j) - xi[k], dy = load(y+j) - yi[k], dz = load(z+j) - zi[k];
          V f = inverse_cube(dx*dx + (dy*dy + (dz*dz + e2))), g = f*load(m+j);
          sx[k] += g*dx; sy[k] += g*dy; sz[k] += g*dz;
          f *= mi[k]; bx -= f*dx; by -= f*dy; bz -= f*dz;
        }
        store(ax+j, bx); store(ay+j, by); store(az+j, bz);
      }
      for (int k = 0; k < ROWS; k++) { ax[i+k] += total(sx[k]); ay[i+k] += total(sy[k]); az[i+k] += total(sz[k]); }
    }
  }
}
static void pull_plain(const double *restrict q, const double *restrict m, double *restrict a, int64_t N, double e2) {
  const double *x = q, *y = q + N, *z = q + 2*N;
  for (int64_t i = 0; i < N; i++) {
    double sx = 0, sy = 0, sz = 0;
    for (int64_t j = 0; j < N; j++) {
      double dx = x[j]-x[i], dy = y[j]-y[i], dz = z[j]-z[i], r2 = dx*dx + dy*dy + dz*dz + e2, f = m[j]/(r2*sqrt(r2));
      sx += f*dx; sy += f*dy; sz += f*dz;
    }
    a[i] = sx; a[N+i] = sy; a[2*N+i] = sz;
  }
}
// plain C by the third law
static void pull_third(const double *restrict q, const double *restrict m, double *restrict a, int64_t N, double e2) {
  const double *x = q, *y = q + N, *z = q + 2*N;
  double *restrict ax = a, *restrict ay = a + N, *restrict az = a + 2*N;
  memset(a, 0, 3*N*sizeof *a);
  for (int64_t i = 0; i < N; i++) {
    double sx = 0, sy = 0, sz = 0, xi = x[i], yi = y[i], zi = z[i], mi = m[i];
#pragma GCC ivdep
    for (int64_t j = i + 1; j < N; j++) {
      double dx = x[j]-xi, dy = y[j]-yi, dz = z[j]-zi, r2 = dx*dx + dy*dy + dz*dz + e2, f = 1/(r2*sqrt(r2)), g = f*m[j];
      sx += g*dx; sy += g*dy; sz += g*dz;
      f *= mi; ax[j] -= f*dx; ay[j] -= f*dy; az[j] -= f*dz;
    }
    ax[i] += sx; ay[i] += sy; az[i] += sz;
  }
}
// a has 3N numbers
#define GRAVITY(name, pull) \
void name(double *q, double *v, double *a, const double *m, int64_t N, double e2, double d, double h, int64_t n) { \
  for (int64_t s = 0; s < n; s++) { \
    for (int64_t i = 0; i < 3*N; i++) q[i] += d*v[i]; \
    pull(q, m, a, N, e2); \
    for (int64_t i = 0; i < 3*N; i++) v[i] += h*a[i]; \
  } \
}
GRAVITY(gravity_tiles, pull_tiles)
GRAVITY(gravity_plain, pull_plain)
GRAVITY(gravity_third, pull_third)

// --- Fermi-Pasta-Ulam-Tsingou: 64 particles between walls, force r + alpha r**2 --------------------------------
#define CHAIN 64
#define NV (CHAIN/W)
#if W == 8
#define UP(lo, hi) __builtin_shuffle(lo, hi, (I){1, 2, 3, 4, 5, 6, 7, 8})
#define DOWN(lo, hi) __builtin_shuffle(lo, hi, (I){7, 8, 9, 10, 11, 12, 13, 14})
#define ROUND_UP(v) __builtin_shuffle(v, splat(0), (I){1, 2, 3, 4, 5, 6, 7, 8})
#define ROUND_DOWN(v) __builtin_shuffle(v, splat(0), (I){8, 0, 1, 2, 3, 4, 5, 6})
#else
#define UP(lo, hi) __builtin_shuffle(lo, hi, (I){1, 2, 3, 4})
#define DOWN(lo, hi) __builtin_shuffle(lo, hi, (I){3, 4, 5, 6})
#define ROUND_UP(v) __builtin_shuffle(v, splat(0), (I){1, 2, 3, 4})
#define ROUND_DOWN(v) __builtin_shuffle(v, splat(0), (I){4, 0, 1, 2})
#endif
// neighbours lie in neighbouring lanes: a drift and a kick in one pass, neighbours by shifting vectors
IN void chain_step(V *q, V *p, double d, double h, double alpha) {
  V next = q[0] + d*p[0], left = splat(0);
  left[W-1] = next[0]*(1 + alpha*next[0]);
#pragma GCC unroll 16
  for (int k = 0; k < NV; k++) {
    V here = next;
    q[k] = here;
    next = k < NV-1 ? q[k+1] + d*p[k+1] : splat(0);
    V r = UP(here, next) - here, f = r*(1 + alpha*r);
    p[k] += h*(f - DOWN(left, f));
    left = f;
  }
}
void chain_shifts(double *Q, double *P, double alpha, double d, double h, int64_t n) {
  V q[NV], p[NV];
  memcpy(q, Q, sizeof q); memcpy(p, P, sizeof p);
  for (int64_t s = 0; s < n; s++) chain_step(q, p, d, h, alpha);
  memcpy(Q, q, sizeof q); memcpy(P, p, sizeof p);
}
// each lane has a stretch of the chain: neighbours are neighbouring vectors, and only the ends of stretches are moved
IN void stretch_step(V *q, V *p, double d, double h, double alpha) {
  q[0] += d*p[0]; q[NV-1] += d*p[NV-1];
  V first = q[0], before = q[0] - ROUND_DOWN(q[NV-1]), left = before*(1 + alpha*before);
#pragma GCC unroll 16
  for (int k = 0; k < NV; k++) {
    if (k < NV-2) q[k+1] += d*p[k+1];
    V r = (k < NV-1 ? q[k+1] : ROUND_UP(first)) - q[k], f = r*(1 + alpha*r);
    p[k] += h*(f - left);
    left = f;
  }
}
void chain_stretches(double *Q, double *P, double alpha, double d, double h, int64_t n) {
  V q[NV], p[NV];
  for (int k = 0; k < NV; k++) for (int l = 0; l < W; l++) { q[k][l] = Q[l*NV+k]; p[k][l] = P[l*NV+k]; }
  for (int64_t s = 0; s < n; s++) stretch_step(q, p, d, h, alpha);
  for (int k = 0; k < NV; k++) for (int l = 0; l < W; l++) { Q[l*NV+k] = q[k][l]; P[l*NV+k] = p[k][l]; }
}
static inline void springs(const double *restrict q, double *restrict p, double h, double a) {
  double g[CHAIN+1];
  g[0] = q[0]*(1 + a*q[0]);
  for (int i = 0; i < CHAIN-1; i++) { double r = q[i+1] - q[i]; g[i+1] = r*(1 + a*r); }
  g[CHAIN] = -q[CHAIN-1]*(1 - a*q[CHAIN-1]);
  for (int i = 0; i < CHAIN; i++) p[i] += h*(g[i+1] - g[i]);
}
void chain_plain(double *restrict q, double *restrict p, double alpha, double d, double h, int64_t n) {
  for (int64_t s = 0; s < n; s++) {
    for (int i = 0; i < CHAIN; i++) q[i] += d*p[i];
    springs(q, p, h, alpha);
  }
}

// --- D2Q9 BGK, periodic: nine planes of (ny, nx), `plane` numbers from one to the next -----------------------------
static const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1}, op[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
#define COLLIDE(T) \
  T rho = f[0] + (f[1]+f[3]) + (f[2]+f[4]) + (f[5]+f[6]) + (f[7]+f[8]), ir = 1/rho; \
  T ux = ((f[1]-f[3]) + ((f[5]-f[7]) + (f[8]-f[6])))*ir, uy = ((f[2]-f[4]) + ((f[5]-f[7]) - (f[8]-f[6])))*ir; \
  T w1 = om*rho*(1./9), w2 = w1*.25, ux3 = 3*ux, uy3 = 3*uy, ux2 = 4.5*ux*ux, uy2 = 4.5*uy*uy, b = 1 - (ux2+uy2)*(1./3); \
  T px = w1*(b+ux2), py = w1*(b+uy2), qx = w1*ux3, qy = w1*uy3, bb = b + ux2 + uy2, xy = ux3*uy3; \
  T p5 = w2*(bb+xy), p6 = w2*(bb-xy), g5 = w2*(ux3+uy3), g6 = w2*(ux3-uy3); \
  double c1 = 1 - om; \
  T e[9] = {c1*f[0] + 4*w1*b, c1*f[1] + (px+qx), c1*f[2] + (py+qy), c1*f[3] + (px-qx), c1*f[4] + (py-qy), \
            c1*f[5] + (p5+g5), c1*f[6] + (p6-g6), c1*f[7] + (p5-g5), c1*f[8] + (p6+g6)};
IN int64_t wrap(int64_t k, int64_t n) { return k < 0 ? k + n : k < n ? k : k - n; }
IN void site(const double *restrict *r, double *restrict g, int64_t plane, int64_t nx, double om, int64_t x) {
  double f[9];
  for (int i = 0; i < 9; i++) f[i] = r[i][wrap(x - cx[i], nx)];
  COLLIDE(double)
  for (int i = 0; i < 9; i++) g[i*plane+x] = e[i];
}
// two lattices, pull
#define ROW const double *restrict *r, double *restrict g, int64_t plane, int64_t nx, double om
IN void row_plain(ROW) {
  site(r, g, plane, nx, om, 0);
#pragma GCC ivdep
  for (int64_t x = 1; x < nx-1; x++) {
    double f[9] = {r[0][x], r[1][x-1], r[2][x], r[3][x+1], r[4][x], r[5][x-1], r[6][x+1], r[7][x+1], r[8][x-1]};
    COLLIDE(double)
    for (int i = 0; i < 9; i++) g[i*plane+x] = e[i];
  }
  site(r, g, plane, nx, om, nx-1);
}
#define ROW_OF_VECTORS(name, put) IN void name(ROW) { \
  for (int64_t x = 0; x < W; x++) site(r, g, plane, nx, om, x); \
  for (int64_t x = W; x < nx-W; x += W) { \
    V f[9]; \
    for (int i = 0; i < 9; i++) f[i] = load(r[i] + x - cx[i]); \
    COLLIDE(V) \
    for (int i = 0; i < 9; i++) put(g + i*plane + x, e[i]); \
  } \
  for (int64_t x = nx-W; x < nx; x++) site(r, g, plane, nx, om, x); \
}
ROW_OF_VECTORS(row_vectors, store)
ROW_OF_VECTORS(row_streams, stream)
#define TWO(name, row) \
void name(double *F, double *G, int64_t nx, int64_t ny, int64_t plane, double om, int64_t n) { \
  for (int64_t t = 0; t < n; t++) { \
    for (int64_t y = 0; y < ny; y++) { \
      const double *restrict r[9]; \
      for (int i = 0; i < 9; i++) r[i] = F + i*plane + wrap(y - cy[i], ny)*nx; \
      row(r, G + y*nx, plane, nx, om); \
    } \
    double *s = F; F = G; G = s; \
  } \
}
TWO(fluid_plain, row_plain)
TWO(fluid_vectors, row_vectors)
TWO(fluid_streams, row_streams)
// one lattice (Bailey 2009's AA pattern): even steps collide in place and leave populations in the slot of the opposite
// direction; odd steps take them from the neighbours and put them back there. n is even.
IN void in_place_site(double **P, int64_t nx, double om, int64_t x, int odd) {
  double f[9];
  for (int i = 0; i < 9; i++) f[i] = P[i][odd ? wrap(x - cx[i], nx) : x];
  COLLIDE(double)
  for (int i = 0; i < 9; i++) P[i][odd ? wrap(x - cx[i], nx) : x] = e[op[i]];
}
void fluid_in_place(double *A, int64_t nx, int64_t ny, int64_t plane, double om, int64_t n) {
  for (int64_t t = 0; t < n; t++) for (int64_t y = 0; y < ny; y++) {
    int odd = t & 1;
    double *P[9];
    for (int i = 0; i < 9; i++) P[i] = odd ? A + op[i]*plane + wrap(y - cy[i], ny)*nx : A + i*plane + y*nx;
    if (!odd) {
      for (int64_t x = 0; x < nx; x += W) {
        V f[9];
        for (int i = 0; i < 9; i++) f[i] = load(P[i] + x);
        COLLIDE(V)
        for (int i = 0; i < 9; i++) store(P[i] + x, e[op[i]]);
      }
      continue;
    }
    for (int64_t x = 0; x < W; x++) in_place_site(P, nx, om, x, 1);
    for (int64_t x = W; x < nx-W; x += W) {
      V f[9];
      for (int i = 0; i < 9; i++) f[i] = load(P[i] + x - cx[i]);
      COLLIDE(V)
      for (int i = 0; i < 9; i++) store(P[i] + x - cx[i], e[op[i]]);
    }
    for (int64_t x = nx-W; x < nx; x++) in_place_site(P, nx, om, x, 1);
  }
}

// --- wave equation on a periodic sheet: force is the sum of the four neighbours less four times the site ------------
IN void drift_row(double *restrict u, const double *restrict v, int64_t nx, double d) {
  for (int64_t x = 0; x < nx; x += W) store(u+x, load(u+x) + d*load(v+x));
}
IN void kick_row(const double *a, const double *b, const double *c, double *v, int64_t nx, double h) {
#define KICK_AT(x) v[x] += h*((a[x] + c[x]) + (b[wrap(x-1, nx)] + b[wrap(x+1, nx)]) - 4*b[x]);
  for (int64_t x = 0; x < W; x++) KICK_AT(x)
  for (int64_t x = W; x < nx-W; x += W)
    store(v+x, load(v+x) + h*((load(a+x) + load(c+x)) + (load(b+x-1) + load(b+x+1)) - 4*load(b+x)));
  for (int64_t x = nx-W; x < nx; x++) KICK_AT(x)
}
// a row is kicked as soon as the row behind it has drifted: u and v come from memory once a step
void wave_rows(double *u, double *v, int64_t nx, int64_t ny, double d, double h, int64_t n) {
  for (int64_t s = 0; s < n; s++) {
    drift_row(u + (ny-1)*nx, v + (ny-1)*nx, nx, d);
    drift_row(u, v, nx, d);
    for (int64_t y = 0; y < ny; y++) {
      if (y < ny-2) drift_row(u + (y+1)*nx, v + (y+1)*nx, nx, d);
      kick_row(u + wrap(y-1, ny)*nx, u + y*nx, u + wrap(y+1, ny)*nx, v + y*nx, nx, h);
    }
  }
}
void wave_plain(double *restrict u, double *restrict v, int64_t nx, int64_t ny, double d, double h, int64_t n) {
  for (int64_t s = 0; s < n; s++) {
    for (int64_t i = 0; i < nx*ny; i++) u[i] += d*v[i];
    for (int64_t y = 0; y < ny; y++) {
      const double *a = u + wrap(y-1, ny)*nx, *b = u + y*nx, *c = u + wrap(y+1, ny)*nx;
      double *r = v + y*nx;
      r[0] += h*(a[0] + c[0] + b[nx-1] + b[1] - 4*b[0]);
      for (int64_t x = 1; x < nx-1; x++) r[x] += h*(a[x] + c[x] + b[x-1] + b[x+1] - 4*b[x]);
      r[nx-1] += h*(a[nx-1] + c[nx-1] + b[nx-2] + b[0] - 4*b[nx-1]);
    }
  }
}
