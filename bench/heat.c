/* Double wells in a Langevin bath by hand: BAOAB, Philox4x32-10 and Box & Muller, members in the inner loop.
   The loop over members of a block is one that compilers vectorise, with the logarithm and the cosine of libmvec. */
#include <math.h>
#include <stdint.h>

#define BLOCK 512

static inline double normal(uint32_t index, uint32_t step, uint32_t stream, uint32_t seed)
{
    uint32_t a = index, b = step, c = 0, d = stream, k = seed, l = 0;
    for (int n = 0; n < 10; n++) {
        uint64_t left = (uint64_t)0xD2511F53u * a, right = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(right >> 32) ^ b ^ k;
        b = (uint32_t)right;
        c = (uint32_t)(left >> 32) ^ d ^ l;
        d = (uint32_t)left;
        k += 0x9E3779B9u;
        l += 0xBB67AE85u;
    }
    double u = ((double)(int32_t)(a >> 5) * 67108864.0 + (double)(int32_t)(b >> 6)) * 0x1p-53;
    double v = ((double)(int32_t)(c >> 5) * 67108864.0 + (double)(int32_t)(d >> 6)) * 0x1p-53;
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v);
}

void wells(double *q, double *p, long members, long steps, double dt, double T, double rate, uint32_t seed)
{
    double c = exp(-rate * dt), width = sqrt(-expm1(-2.0 * rate * dt) * T), h = 0.5 * dt;
    for (long first = 0; first < members; first += BLOCK) {
        long count = members - first < BLOCK ? members - first : BLOCK;
        double *x = q + first, *y = p + first;
        for (long k = 0; k < count; k++) y[k] -= h * 4.0 * x[k] * (x[k] * x[k] - 1.0);
        for (long n = 0; n < steps; n++)
            for (long k = 0; k < count; k++) {
                double z = x[k] + h * y[k];
                double w = c * y[k] + width * normal((uint32_t)(first + k), (uint32_t)n, 0xA0000000u, seed);
                z += h * w;
                y[k] = w - dt * 4.0 * z * (z * z - 1.0);
                x[k] = z;
            }
        for (long k = 0; k < count; k++) y[k] += h * 4.0 * x[k] * (x[k] * x[k] - 1.0);
    }
}
