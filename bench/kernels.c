// Hand-written references. Vectors are as wide as the machine's; K vectors are interleaved by hand.
// Leapfrog KDK with the half kicks of neighbouring steps merged: one force per step.
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#define W 8
#define K_SIN 6
#define K_HH 4
#else
#define W 4
#define K_SIN 4
#define K_HH 3
#endif
typedef double V __attribute__((vector_size(W*8)));
typedef int64_t I __attribute__((vector_size(W*8)));
#define A1 -0.16666666666666666633
#define A2 0.0083333333333333157466
#define A3 -0.00019841269841254884688
#define A4 2.7557319219139182201e-6
#define A5 -2.5052107613934760316e-8
#define A6 1.6058977114074673292e-10
#define A7 -7.6439639659253566632e-13
#define A8 2.7313658674940167149e-15
#define IPI 0.31830988618379067154
#define PIH 3.141592653589793116
#define PIL 1.2246467991473531772e-16
#define MAG 6755399441055744.0 /* 1.5*2^52 */
static inline V load(const double *p) { V v; memcpy(&v, p, sizeof v); return v; }
static inline void store(double *p, V v) { memcpy(p, &v, sizeof v); }

// 8n products, each waiting for the one before: 24n cycles (of a sum with a number recent cores do several at once)
void clock_chain(double *s, int64_t n) {
  uint64_t x = 1;
#define TICK x *= UINT64_C(0x9e3779b97f4a7c15); __asm__ volatile("" : "+r"(x));
  for (int64_t i = 0; i < n; i++) { TICK TICK TICK TICK TICK TICK TICK TICK }
  s[0] = x;
}

// one trajectory, the library's sine
void pendulum_one(double *s, double dt, int64_t n) {
  double q = s[0], p = s[1];
  p -= .5*dt*sin(q);
  for (int64_t i = 0; i < n - 1; i++) { q += dt*p; p -= dt*sin(q); }
  q += dt*p; p -= .5*dt*sin(q);
  s[0] = q; s[1] = p;
}
// plain C, 32 lanes at a time: the compiler vectorises (with the vector maths library under -ffast-math)
void pendulum_tiled(double *restrict Q, double *restrict P, int64_t N, double dt, int64_t n) {
  for (int64_t o = 0; o < N; o += 32) {
    double q[32], p[32];
    for (int j = 0; j < 32; j++) { q[j] = Q[o+j]; p[j] = P[o+j]; p[j] -= .5*dt*sin(q[j]); }
    for (int64_t i = 0; i < n; i++) {
      double h = i == n-1 ? .5*dt : dt;
      for (int j = 0; j < 32; j++) { q[j] += dt*p[j]; p[j] -= h*sin(q[j]); }
    }
    for (int j = 0; j < 32; j++) { Q[o+j] = q[j]; P[o+j] = p[j]; }
  }
}
void pendulum_naive(double *restrict q, double *restrict p, int64_t N, double dt, int64_t n) {
  for (int64_t j = 0; j < N; j++) p[j] -= .5*dt*sin(q[j]);
  for (int64_t i = 0; i < n; i++) {
    double h = i == n-1 ? .5*dt : dt;
    for (int64_t j = 0; j < N; j++) { q[j] += dt*p[j]; p[j] -= h*sin(q[j]); }
  }
}
static inline __attribute__((always_inline)) void kick(V *q, V *p, double h) {
  V u[K_SIN], r[K_SIN], P[K_SIN]; I sign[K_SIN];
  for (int k = 0; k < K_SIN; k++) {
    V t = q[k]*IPI + MAG; sign[k] = (I)t << 63; V m = t - MAG;
    r[k] = q[k] - m*PIH; r[k] = r[k] - m*PIL; u[k] = r[k]*r[k]; P[k] = u[k]*A8 + A7;
  }
#define STAGE(c) for (int k = 0; k < K_SIN; k++) P[k] = u[k]*P[k] + c;
  STAGE(A6) STAGE(A5) STAGE(A4) STAGE(A3) STAGE(A2) STAGE(A1)
  for (int k = 0; k < K_SIN; k++) {
    V y = (r[k]*u[k])*P[k] + r[k]; V H = h - (V){0}; V hs = (V)((I)H ^ sign[k]);
    p[k] = p[k] - hs*y;
  }
}
// vectors and a polynomial sine by hand
void pendulum_hand(double *Q, double *P, int64_t N, double dt, int64_t n) {
  for (int64_t o = 0; o + W*K_SIN <= N; o += W*K_SIN) {
    V q[K_SIN], p[K_SIN];
    for (int k = 0; k < K_SIN; k++) { q[k] = load(Q+o+W*k); p[k] = load(P+o+W*k); }
    kick(q, p, .5*dt);
    for (int64_t i = 0; i < n-1; i++) { for (int k = 0; k < K_SIN; k++) q[k] += dt*p[k]; kick(q, p, dt); }
    for (int k = 0; k < K_SIN; k++) q[k] += dt*p[k];
    kick(q, p, .5*dt);
    for (int k = 0; k < K_SIN; k++) { store(Q+o+W*k, q[k]); store(P+o+W*k, p[k]); }
  }
}
// a symmetric composition of s leapfrogs with weights a, in drift-kick-drift form
void pendulum_composed(double *Q, double *P, int64_t N, const double *a, int s, double dt, int64_t n) {
  double D[64], H[64];
  for (int j = 0; j < s; j++) { H[j] = a[j]*dt; D[j] = .5*dt*(a[j] + a[j ? j-1 : s-1]); }
  double d0 = .5*dt*a[0];
  for (int64_t o = 0; o + W*K_SIN <= N; o += W*K_SIN) {
    V q[K_SIN], p[K_SIN];
    for (int k = 0; k < K_SIN; k++) { q[k] = load(Q+o+W*k); p[k] = load(P+o+W*k); }
    for (int64_t i = 0; i < n; i++) for (int j = 0; j < s; j++) {
      double d = (i == 0 && j == 0) ? d0 : D[j];
      for (int k = 0; k < K_SIN; k++) q[k] += d*p[k];
      kick(q, p, H[j]);
    }
    for (int k = 0; k < K_SIN; k++) { q[k] += d0*p[k]; store(Q+o+W*k, q[k]); store(P+o+W*k, p[k]); }
  }
}
// Henon-Heiles: V = (x^2 + y^2)/2 + x^2 y - y^3/3
void henon_tiled(double *restrict X, double *restrict Y, double *restrict A, double *restrict B, int64_t N, double dt, int64_t n) {
  for (int64_t o = 0; o < N; o += 32) {
    double x[32], y[32], a[32], b[32];
    for (int j = 0; j < 32; j++) {
      x[j] = X[o+j]; y[j] = Y[o+j]; a[j] = A[o+j]; b[j] = B[o+j];
      a[j] -= .5*dt*(x[j] + 2*x[j]*y[j]); b[j] -= .5*dt*(y[j] + x[j]*x[j] - y[j]*y[j]);
    }
    for (int64_t i = 0; i < n; i++) {
      double h = i == n-1 ? .5*dt : dt;
      for (int j = 0; j < 32; j++) {
        x[j] += dt*a[j]; y[j] += dt*b[j];
        a[j] -= h*(x[j] + 2*x[j]*y[j]); b[j] -= h*(y[j] + x[j]*x[j] - y[j]*y[j]);
      }
    }
    for (int j = 0; j < 32; j++) { X[o+j] = x[j]; Y[o+j] = y[j]; A[o+j] = a[j]; B[o+j] = b[j]; }
  }
}
#define KICK(h) for (int k = 0; k < K_HH; k++) { V t = 2.*y[k] + 1.; V hx = (h)*x[k]; a[k] = a[k] - hx*t; \
  V f = x[k]*x[k] + y[k]; f = f - y[k]*y[k]; b[k] = b[k] - (h)*f; }
#define DRIFT for (int k = 0; k < K_HH; k++) { x[k] += dt*a[k]; y[k] += dt*b[k]; }
void henon_hand(double *X, double *Y, double *A, double *B, int64_t N, double dt, int64_t n) {
  for (int64_t o = 0; o + W*K_HH <= N; o += W*K_HH) {
    V x[K_HH], y[K_HH], a[K_HH], b[K_HH];
    for (int k = 0; k < K_HH; k++) { x[k] = load(X+o+W*k); y[k] = load(Y+o+W*k); a[k] = load(A+o+W*k); b[k] = load(B+o+W*k); }
    KICK(.5*dt)
    for (int64_t i = 0; i < n-1; i++) { DRIFT KICK(dt) }
    DRIFT KICK(.5*dt)
    for (int k = 0; k < K_HH; k++) { store(X+o+W*k, x[k]); store(Y+o+W*k, y[k]); store(A+o+W*k, a[k]); store(B+o+W*k, b[k]); }
  }
}
// Nine bodies, the first heavy: (x, y, z) of each body in turn; pairs in a plain loop
void planets_plain(double *x, double *v, const double *m, double dt, int64_t n) {
  for (int64_t s = 0; s <= n; s++) {
    double a[27] = {0}, h = s == 0 || s == n ? .5*dt : dt;
    if (s) for (int i = 0; i < 27; i++) x[i] += dt*v[i];
    for (int i = 1; i < 9; i++) for (int j = 0; j < i; j++) {
      double dx = x[3*i]-x[3*j], dy = x[3*i+1]-x[3*j+1], dz = x[3*i+2]-x[3*j+2], r2 = dx*dx + dy*dy + dz*dz;
      double f = 1/(r2*sqrt(r2)), fi = m[j]*f, fj = m[i]*f;
      a[3*i] -= fi*dx; a[3*i+1] -= fi*dy; a[3*i+2] -= fi*dz; a[3*j] += fj*dx; a[3*j+1] += fj*dy; a[3*j+2] += fj*dz;
    }
    for (int i = 0; i < 27; i++) v[i] += h*a[i];
  }
}
// the eight light bodies are the lanes of one vector: pairs of light bodies at a distance of k lanes by rotating it
typedef double B __attribute__((vector_size(64)));
typedef int64_t BI __attribute__((vector_size(64)));
#define ROT(v, k) __builtin_shuffle(v, (BI){(k)&7, (k+1)&7, (k+2)&7, (k+3)&7, (k+4)&7, (k+5)&7, (k+6)&7, (k+7)&7})
static inline __attribute__((always_inline)) B inverse_cube(B x, B y, B z) {
  B r2 = x*x + y*y + z*z, r;
  for (int k = 0; k < 8; k++) r[k] = __builtin_sqrt(r2[k]);
  return 1/(r2*r);
}
static inline __attribute__((always_inline)) double total(B v) { return ((v[0]+v[4]) + (v[2]+v[6])) + ((v[1]+v[5]) + (v[3]+v[7])); }
void planets_hand(double *X, double *U, const double *m, double dt, int64_t n) {
  B x[3], v[3], mass; double s[3], u[3];
  for (int i = 0; i < 8; i++) { mass[i] = m[i+1]; for (int c = 0; c < 3; c++) { x[c][i] = X[3*i+3+c]; v[c][i] = U[3*i+3+c]; } }
  for (int c = 0; c < 3; c++) { s[c] = X[c]; u[c] = U[c]; }
  B m1 = ROT(mass, 1), m2 = ROT(mass, 2), m3 = ROT(mass, 3), m4 = ROT(mass, 4);
  for (int64_t i = 0; i <= n; i++) {
    double h = i == 0 || i == n ? .5*dt : dt;
    if (i) for (int c = 0; c < 3; c++) { x[c] += dt*v[c]; s[c] += dt*u[c]; }
    B d[3], a[3];
    for (int c = 0; c < 3; c++) d[c] = x[c] - s[c];
    B f = inverse_cube(d[0], d[1], d[2]);
    for (int c = 0; c < 3; c++) { u[c] += h*total(mass*f*d[c]); a[c] = m[0]*f*d[c]; }
#define PAIR(k) { for (int c = 0; c < 3; c++) d[c] = x[c] - ROT(x[c], k); \
      B f = inverse_cube(d[0], d[1], d[2]), g = m##k*f, b = mass*f; \
      for (int c = 0; c < 3; c++) a[c] += g*d[c] - ROT(b*d[c], 8-k); }
    PAIR(1) PAIR(2) PAIR(3)
    for (int c = 0; c < 3; c++) d[c] = x[c] - ROT(x[c], 4);
    f = m4*inverse_cube(d[0], d[1], d[2]);
    for (int c = 0; c < 3; c++) { a[c] += f*d[c]; v[c] -= h*a[c]; }
  }
  for (int i = 0; i < 8; i++) for (int c = 0; c < 3; c++) { X[3*i+3+c] = x[c][i]; U[3*i+3+c] = v[c][i]; }
  for (int c = 0; c < 3; c++) { X[c] = s[c]; U[c] = u[c]; }
}
