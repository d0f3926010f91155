/* The game of life and a lattice gas by hand: bytes, rows without a test inside, what the compiler vectorises. */
#include <stdint.h>

#define ROWS(a, i, n) \
  const int8_t *u = a + ((i + n - 1) % n) * n, *m = a + i * n, *d = a + ((i + 1) % n) * n; int8_t *o = b + i * n;

static void life(const int8_t *restrict a, int8_t *restrict b, int64_t n) {
#define CELL(l, j, r) { \
    const int8_t s = u[l] + u[j] + u[r] + m[l] + m[r] + d[l] + d[j] + d[r]; \
    o[j] = (s == 3) | ((s == 2) & (m[j] == 1)); }
  for (int64_t i = 0; i < n; i++) {
    ROWS(a, i, n)
    CELL(n - 1, 0, 1)
    for (int64_t j = 1; j < n - 1; j++) CELL(j - 1, j, j + 1)
    CELL(n - 2, n - 1, 0)
  }
#undef CELL
}

/* each site collides once, into rows that a cache holds; a mask, because a choice is not vectorised as well */
static void collided(const int8_t *restrict a, int8_t *restrict c, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    const int8_t f = a[j], hit = -((f == 5) | (f == 10));
    c[j] = f ^ (hit & 15);
  }
}

static void gas(const int8_t *restrict a, int8_t *restrict b, int64_t n) {
  static int8_t above[1 << 16], here[1 << 16], below[1 << 16];
  int8_t *u = above, *m = here, *d = below;
  collided(a + (n - 1) * n, u, n);
  collided(a, m, n);
  for (int64_t i = 0; i < n; i++) {
    int8_t *restrict o = b + i * n;
    collided(a + (i + 1) % n * n, d, n);
    o[0] = (m[n - 1] & 1) | (m[1] & 4) | (u[0] & 2) | (d[0] & 8);
    for (int64_t j = 1; j < n - 1; j++) o[j] = (m[j - 1] & 1) | (m[j + 1] & 4) | (u[j] & 2) | (d[j] & 8);
    o[n - 1] = (m[n - 2] & 1) | (m[0] & 4) | (u[n - 1] & 2) | (d[n - 1] & 8);
    int8_t *old = u;
    u = m, m = d, d = old;
  }
}

/* a counter that wraps, 16 bits a cell: each adds to its own what its neighbours have */
static void count(const int16_t *restrict a, int16_t *restrict b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const int16_t *m = a + i * n;
    int16_t *o = b + i * n;
    o[0] = 3 * m[0] + (m[n - 1] ^ m[1]);
    for (int64_t j = 1; j < n - 1; j++) o[j] = 3 * m[j] + (m[j - 1] ^ m[j + 1]);
    o[n - 1] = 3 * m[n - 1] + (m[n - 2] ^ m[0]);
  }
}

#define RUN(name, type) \
  void run_##name(type *a, type *b, int64_t n, int64_t steps) { \
    for (int64_t k = 0; k < steps; k++) { name(a, b, n); type *t = a; a = b; b = t; } \
  }
RUN(life, int8_t)
RUN(gas, int8_t)
RUN(count, int16_t)
