/* The words of a product of exponentials of two letters, and their derivatives with respect to its weights.
 *
 * s[w*LANES + l]: the coefficient of word w (of all lengths up to top, after one another, in the order of a
 * dictionary) for l = 0, and for l = 1 + k its derivative with respect to weight k. Weight place[j] is that of factor j.
 */
#include <string.h>
#define LANES 32

typedef double lanes __attribute__((vector_size(8 * LANES), aligned(8)));

void words(int top, int factors, const int *letter, const int *place, const double *weight, lanes *s)
{
    long size = (2L << top) - 1;
    memset(s, 0, size * sizeof *s);
    s[0][0] = 1.0;
    for (int j = 0; j < factors; j++) {
        double a = weight[place[j]], power[16];
        int c = letter[j];
        power[0] = 1.0;
        for (int k = 1; k <= top; k++)
            power[k] = power[k - 1] * a / k;
        for (int n = top; n > 0; n--) { /* the longest first: shorter words are read before they change */
            lanes *to = s + (1L << n) - 1;
            for (int k = 1; k <= n; k++) {
                lanes *from = s + (1L << (n - k)) - 1;
                long last = c ? (1L << k) - 1 : 0;
                for (long w = 0; w < 1L << (n - k); w++) {
                    lanes *t = to + (w << k) + last;
                    *t += power[k] * from[w];
                    (*t)[1 + place[j]] += power[k - 1] * from[w][0]; /* d/da of a**k/k! */
                }
            }
        }
    }
}
