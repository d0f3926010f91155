/* Products of matrices by hand: plain loops that a compiler vectorises, and a tiled one. cc -O3 -march=native -ffast-math */
#include <stdint.h>
#include <string.h>

void on_vector(const double *restrict a, const double *restrict z, double *restrict out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double s = 0.0;
    for (int64_t k = 0; k < n; k++) s += a[i*n + k]*z[k];
    out[i] = s;
  }
}

void from_left(const double *restrict a, const double *restrict z, double *restrict out, int64_t n) {
  memset(out, 0, n*sizeof *out);
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0; j < n; j++) out[j] += z[k]*a[k*n + j];
}

void of_matrices(const double *restrict a, const double *restrict b, double *restrict out, int64_t n) {
  memset(out, 0, n*n*sizeof *out);
  for (int64_t k0 = 0; k0 < n; k0 += 64)
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = k0; k < (k0 + 64 < n ? k0 + 64 : n); k++)
        for (int64_t j = 0; j < n; j++) out[i*n + j] += a[i*n + k]*b[k*n + j];
}
