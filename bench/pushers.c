/* Boris' step in a dipole, and leapfrog with friction, by hand: blocks of 64 members, which the compiler makes vectors of. */
#include <math.h>
#include <stdint.h>

enum { LANES = 64 };

/* q and p are (n, 3); n is a multiple of LANES */
void boris_dipole(double *q, double *p, double moment, double dt, int64_t n, int64_t steps) {
    for (int64_t first = 0; first < n; first += LANES) {
        double x[LANES], y[LANES], z[LANES], u[LANES], v[LANES], w[LANES];
        for (int k = 0; k < LANES; k++) {
            double *a = q + 3 * (first + k), *b = p + 3 * (first + k);
            x[k] = a[0], y[k] = a[1], z[k] = a[2], u[k] = b[0], v[k] = b[1], w[k] = b[2];
            x[k] += 0.5 * dt * u[k], y[k] += 0.5 * dt * v[k], z[k] += 0.5 * dt * w[k];
        }
        for (int64_t i = 0; i < steps; i++) {
#pragma omp simd
            for (int k = 0; k < LANES; k++) {
                double r2 = x[k] * x[k] + y[k] * y[k] + z[k] * z[k];
                double c = 0.5 * dt * moment / (r2 * r2 * sqrt(r2));
                double tx = -3 * c * x[k] * z[k], ty = -3 * c * y[k] * z[k], tz = c * (r2 - 3 * z[k] * z[k]);
                double s = 2 / (1 + tx * tx + ty * ty + tz * tz);
                double a = u[k] + (v[k] * tz - w[k] * ty), b = v[k] + (w[k] * tx - u[k] * tz);
                double d = w[k] + (u[k] * ty - v[k] * tx);
                u[k] += s * (b * tz - d * ty), v[k] += s * (d * tx - a * tz), w[k] += s * (a * ty - b * tx);
                x[k] += dt * u[k], y[k] += dt * v[k], z[k] += dt * w[k];
            }
        }
        for (int k = 0; k < LANES; k++) {
            double *a = q + 3 * (first + k), *b = p + 3 * (first + k);
            a[0] = x[k] - 0.5 * dt * u[k], a[1] = y[k] - 0.5 * dt * v[k], a[2] = z[k] - 0.5 * dt * w[k];
            b[0] = u[k], b[1] = v[k], b[2] = w[k];
        }
    }
}

/* a quartic oscillator with friction: half of it at both ends of kick, drift, kick */
void damped_quartic(double *q, double *p, double rate, double dt, int64_t n, int64_t steps) {
    double half = exp(-0.5 * rate * dt), whole = exp(-rate * dt), h = 0.5 * dt;
    for (int64_t first = 0; first < n; first += LANES) {
        double x[LANES], u[LANES];
        for (int k = 0; k < LANES; k++) {
            x[k] = q[first + k], u[k] = half * p[first + k];
            u[k] -= h * (x[k] + x[k] * x[k] * x[k]);
        }
        for (int64_t i = 0; i < steps; i++)
#pragma omp simd
            for (int k = 0; k < LANES; k++) {
                x[k] += dt * u[k];
                double f = h * (x[k] + x[k] * x[k] * x[k]);
                u[k] = whole * (u[k] - f) - f;
            }
        for (int k = 0; k < LANES; k++) {
            q[first + k] = x[k];
            p[first + k] = (u[k] + h * (x[k] + x[k] * x[k] * x[k])) / half;
        }
    }
}
