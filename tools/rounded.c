// What do roots and quotients of float32 need to be the nearest numbers (emit/kinds/ptx_rounded.py)?  All cases, on a processor.
//
//   gcc -O2 -march=native -ffp-contract=off tools/rounded.c -o rounded -lm && ./rounded        (some 10 s; 0 if all is well)
//   ./rounded 101        every 101st number
//
// The last line of a quotient is off by less than 6 units of 1/(D 2^25), before it is rounded: q is off by 1.5 in its last place,
// r by a little more than half, and the remainder may have 25 digits. So it can be rounded the wrong way only where N/D
// is that near to the middle of two numbers: N 2^S - M D = t. For every D and every small t there are few such N, and they are
// found by a reciprocal modulo D. Claims:
//   1. with r = 1/D rounded to nearest, every quotient is the nearest number, for every D;
//   2. with r from an estimate z of x^-3/2 that is y^3, y within 2^-22 of 1/sqrt x, every quotient by x sqrt x is the nearest
//      number unless r is not the nearest one and D is among the last 64 numbers below a power of two; so it is where
//      x sqrt x is subnormal;
//   3. the same with z within 2^-22 of 1/d, for every d.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 16, NEAR_POWER = (1 << 24) - 64 };
static const double SPREAD = 0x1p-22;

static float float_of(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static uint32_t bits_of(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }

static float root(float x, float y) {
  float s = x*y;
  return fmaf(fmaf(-s, s, x), y*0.5f, s);
}
static float reciprocal(float d, float z) {
  float g = fmaf(-d, z, 1.0f);
  return fmaf(z, fmaf(g, g, g), z);
}
static float quotient(float n, float d, float r) {
  float q = n*r;
  return fmaf(fmaf(-d, q, n), r, q);
}

static long looked_at;

// Is every quotient by d = D 2^-23 the nearest number with this r, as far as it is near a middle?
static int all_nearest(uint32_t D, float r) {
  int a = __builtin_ctz(D);
  uint64_t odd = D >> a;
  for (int S = 24; S <= 25; S++) {  // N >= D, N < D
    uint64_t low = S == 24 ? D : 1u << 23, high = S == 24 ? 1u << 24 : D, inverse = odd > 1;
    for (int k = a; k < S; k++) inverse = inverse & 1 ? (inverse + odd)/2 : inverse/2;
    for (int t = -UNITS; t <= UNITS; t++) {
      if (t == 0 || a > 4 || t % (1 << a)) continue;
      int64_t u = t/(1 << a) % (int64_t)odd;
      uint64_t n0 = (uint64_t)(u < 0 ? u + (int64_t)odd : u)*inverse % odd;
      for (uint64_t N = n0 >= low ? n0 : n0 + (low - n0 + odd - 1)/odd*odd; N < high; N += odd) {
        float n = (float)N*0x1p-23f, d = (float)D*0x1p-23f;
        looked_at++;
        if (quotient(n, d, r) != n/d) return 0;
      }
    }
  }
  return 1;
}

// d = D 2^e; r and D are brought to the numbers from 1 to 2.
static int serves(float d, float r, uint32_t *D) {
  int e;
  *D = (uint32_t)ldexpf(frexpf(d, &e), 24);
  return r == 1.0f/d || all_nearest(*D, ldexpf(r, e - 1));
}

int main(int argc, char **argv) {
  uint32_t step = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
  long wrong = 0, estimates = 0, roots = 0, other = 0, near = 0;
  for (uint32_t D = 1u << 23; D < 1u << 24; D += step) wrong += !all_nearest(D, 1.0f/((float)D*0x1p-23f));
  printf("1: %ld quotients near a middle, %ld divisors with a wrong one\n", looked_at, wrong);

  for (int part = 0; part < 3; part++) {  // x from 1 to 4, x sqrt x subnormal, all d
    uint32_t first = part == 1 ? (127 - 86) << 23 : 127u << 23, last = first + (part == 0 ? 2u << 23 : part == 1 ? 3u << 23 : 1u << 23);
    estimates = roots = other = near = 0;
    for (uint32_t k = first; k < last; k += step) {
      float x = float_of(k);
      double exact = part < 2 ? 1/sqrt((double)x) : 1/(double)x;
      uint32_t middle = bits_of((float)exact);
      for (int o = -5; o <= 5; o++) {
        float y = float_of(middle + o), d = x, z = y;
        if (fabs(y - exact) > exact*SPREAD) continue;
        estimates++;
        if (part < 2) {
          float s = root(x, y);
          if (s != sqrtf(x)) { roots++; continue; }  // the device is asked
          d = x*s, z = y*y*y;
          if (isinf(z)) continue;  // makes no number
        }
        float r = reciprocal(d, z);
        if (isinf(r)) continue;
        uint32_t D;
        int well = serves(d, r, &D);
        other += r != 1.0f/d;
        if (!well && D >= NEAR_POWER) near++;
        else if (!well) { wrong++; printf("   x %a y %a d %a r %a\n", x, y, d, r); }
      }
    }
    printf("%s: %ld estimates, %ld roots and %ld reciprocals not nearest, wrong quotients of %ld near a power of two\n",
           part == 0 ? "2" : part == 1 ? "2, subnormal" : "3", estimates, roots, other, near);
  }
  printf(wrong ? "%ld elsewhere\n" : "and of none elsewhere\n", wrong);
  return wrong != 0;
}
