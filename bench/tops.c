// Heavy tops by hand: kick, turns x/2 y/2 z y/2 x/2, kick, with the half kicks of neighbouring steps merged.
// Sines by libmvec (-ffast-math; a sine and a cosine of one angle would become sincos, which it does not have), tops side by side in vectors, a block of them in the first cache for all steps.
#include <math.h>
#include <stddef.h>
#define BLOCK 64
static inline void turn(double *a, double *b, double s, double c) {
  double x = c * *a + s * *b;
  *b = c * *b - s * *a;
  *a = x;
}
#define ABOUT(k, i, j, h)                                                     \
  {                                                                           \
    double half = 0.5 * (h) * L##k * inv##k, s = sin(half), c = sin(half + M_PI_2); \
    double s2 = 2 * s * c, c2 = 1 - 2 * s * s;                                \
    turn(&L##i, &L##j, s2, c2);                                               \
    turn(&R##k, &R0, s, c);                                                   \
    turn(&R##i, &R##j, s, c);                                                 \
  }
// third component of the third axis: w² - x² - y² + z²; its torque is mgl times that axis' horizontal part in the body
#define KICK(h)                                                               \
  {                                                                           \
    L1 += (h) * mgl * 2 * (R2 * R3 + R0 * R1);                               \
    L2 += (h) * mgl * -2 * (R1 * R3 - R0 * R2);                                \
  }
#define LOAD                                                                  \
  double R0 = z[m], R1 = z[n + m], R2 = z[2 * n + m], R3 = z[3 * n + m];      \
  double L1 = z[4 * n + m], L2 = z[5 * n + m], L3 = z[6 * n + m];
static void kick(double *restrict z, size_t n, size_t at, double h, double mgl) {
#pragma omp simd
  for (size_t m = at; m < at + BLOCK; m++) {
    LOAD
    (void)L3;
    KICK(h)
    z[4 * n + m] = L1; z[5 * n + m] = L2;
  }
}
void tops(double *restrict z, size_t n, long steps, double dt, double inv1, double inv2, double inv3, double mgl) {
  for (size_t at = 0; at < n; at += BLOCK) {
    kick(z, n, at, dt / 2, mgl);
    for (long t = 0; t < steps; t++) {
#pragma omp simd
      for (size_t m = at; m < at + BLOCK; m++) {
        LOAD
        ABOUT(1, 2, 3, dt / 2) ABOUT(2, 3, 1, dt / 2) ABOUT(3, 1, 2, dt) ABOUT(2, 3, 1, dt / 2) ABOUT(1, 2, 3, dt / 2)
        double u = 1.5 - 0.5 * (R0 * R0 + R1 * R1 + R2 * R2 + R3 * R3);
        R0 *= u; R1 *= u; R2 *= u; R3 *= u;
        KICK(dt)
        z[m] = R0; z[n + m] = R1; z[2 * n + m] = R2; z[3 * n + m] = R3;
        z[4 * n + m] = L1; z[5 * n + m] = L2; z[6 * n + m] = L3;
      }
    }
    kick(z, n, at, -dt / 2, mgl);
  }
}
