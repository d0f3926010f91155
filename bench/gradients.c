// Gradients by hand: a chain whose steps are taken back, and gravity from stored states. One thread.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define N 64

static void kick(const double *q, double *p, double a, double h) {
    double d[N + 1];
    d[0] = q[0];
    for (int i = 1; i < N; i++) d[i] = q[i] - q[i - 1];
    d[N] = -q[N - 1];
    for (int i = 0; i <= N; i++) d[i] = d[i] + a * d[i] * d[i];
    for (int i = 0; i < N; i++) p[i] += h * (d[i + 1] - d[i]);
}

// the cotangents of positions grow by those of momenta times the derivative of the force; returns that by alpha
static double pull(const double *q, const double *pb, double *qb, double a, double h) {
    double d[N + 1], w[N + 1], sum = 0;
    d[0] = q[0];
    w[0] = pb[0];
    for (int i = 1; i < N; i++) { d[i] = q[i] - q[i - 1]; w[i] = pb[i] - pb[i - 1]; }
    d[N] = -q[N - 1];
    w[N] = -pb[N - 1];
    for (int i = 0; i <= N; i++) { sum -= w[i] * d[i] * d[i]; w[i] *= 1 + 2 * a * d[i]; }
    for (int i = 0; i < N; i++) qb[i] += h * (w[i + 1] - w[i]);
    return h * sum;
}

void chain_forward(double *q, double *p, double a, double h, int64_t steps) {
    kick(q, p, a, h / 2);
    for (int64_t n = 0; n < steps; n++) {
        for (int i = 0; i < N; i++) q[i] += h * p[i];
        kick(q, p, a, h);
    }
    kick(q, p, a, -h / 2);
}

// loss |q|^2/2 + sum p; the gradients are in qb, pb and *ab
void chain_gradient(double *q, double *p, double *qb, double *pb, double *ab, double a, double h, int64_t steps) {
    chain_forward(q, p, a, h, steps);
    for (int i = 0; i < N; i++) { qb[i] = q[i]; pb[i] = 1; }
    kick(q, p, a, h / 2);
    double sum = pull(q, pb, qb, a, -h / 2);
    for (int64_t n = 0; n < steps; n++) {
        sum += pull(q, pb, qb, a, h);
        kick(q, p, a, -h);
        for (int i = 0; i < N; i++) { pb[i] += h * qb[i]; q[i] -= h * p[i]; }
    }
    sum += pull(q, pb, qb, a, h / 2);
    *ab = sum;
}

static void pulls(int n, const double *q, const double *m, double e2, double *f) {
    memset(f, 0, 3 * n * sizeof *f);
    for (int i = 0; i < n; i++) {
        double x = q[3 * i], y = q[3 * i + 1], z = q[3 * i + 2], fx = 0, fy = 0, fz = 0;
        for (int j = 0; j < n; j++) {
            double dx = x - q[3 * j], dy = y - q[3 * j + 1], dz = z - q[3 * j + 2];
            double r2 = dx * dx + dy * dy + dz * dz + e2, c = m[i] * m[j] / (r2 * sqrt(r2));
            fx -= c * dx; fy -= c * dy; fz -= c * dz;
        }
        f[3 * i] = fx; f[3 * i + 1] = fy; f[3 * i + 2] = fz;
    }
}

static void hessian(int n, const double *q, const double *m, double e2, const double *w, double *out) {
    for (int i = 0; i < n; i++) {
        double x = q[3 * i], y = q[3 * i + 1], z = q[3 * i + 2], a = 0, b = 0, c = 0;
        for (int j = 0; j < n; j++) {
            double dx = x - q[3 * j], dy = y - q[3 * j + 1], dz = z - q[3 * j + 2];
            double wx = w[3 * i] - w[3 * j], wy = w[3 * i + 1] - w[3 * j + 1], wz = w[3 * i + 2] - w[3 * j + 2];
            double r2 = dx * dx + dy * dy + dz * dz + e2, k = m[i] * m[j] / (r2 * sqrt(r2));
            double s = 3 * k * (dx * wx + dy * wy + dz * wz) / r2;
            a += s * dx - k * wx; b += s * dy - k * wy; c += s * dz - k * wz;
        }
        out[3 * i] = a; out[3 * i + 1] = b; out[3 * i + 2] = c;
    }
}

void gravity_forward(int64_t n, double *q, double *p, const double *m, double e2, double h, int64_t steps, double *past) {
    double *f = malloc(3 * n * sizeof *f);
    pulls(n, q, m, e2, f);
    for (int k = 0; k < 3 * n; k++) p[k] += h / 2 * f[k];
    for (int64_t s = 0; s < steps; s++) {
        for (int k = 0; k < 3 * n; k++) q[k] += h * p[k] / m[k / 3];
        if (past) memcpy(past + 3 * n * s, q, 3 * n * sizeof *q);
        pulls(n, q, m, e2, f);
        for (int k = 0; k < 3 * n; k++) p[k] += (s + 1 < steps ? h : h / 2) * f[k];
    }
    free(f);
}

// loss |q|^2; the gradients by the first state are in qb, pb
void gravity_gradient(int64_t n, double *q, double *p, const double *m, double e2, double h, int64_t steps, double *qb, double *pb) {
    double *past = malloc(3 * n * steps * sizeof *past), *g = malloc(3 * n * sizeof *g), *first = malloc(3 * n * sizeof *first);
    memcpy(first, q, 3 * n * sizeof *q);
    gravity_forward(n, q, p, m, e2, h, steps, past);
    for (int k = 0; k < 3 * n; k++) { qb[k] = 2 * q[k]; pb[k] = 0; }
    for (int64_t s = steps - 1; s >= 0; s--) {
        hessian(n, past + 3 * n * s, m, e2, pb, g);
        for (int k = 0; k < 3 * n; k++) qb[k] += (s + 1 < steps ? h : h / 2) * g[k];
        for (int k = 0; k < 3 * n; k++) pb[k] += h * qb[k] / m[k / 3];
    }
    hessian(n, first, m, e2, pb, g);
    for (int k = 0; k < 3 * n; k++) qb[k] += h / 2 * g[k];
    free(past); free(g); free(first);
}
