/* Hard discs of diameter 1 in a periodic square, by hand: cells, a heap of one event for each disc. */
#include <math.h>
#include <stdlib.h>
typedef struct { double x, y, u, v, t, when; int with, seen, count, cx, cy, next, prev, at; } Disc;
static Disc *a;
static int n, m, *head, *heap;
static double L, w, now, work;
static inline int sooner(int i, int j) { return a[i].when < a[j].when; }
static void sift(int i) {
    int k = a[i].at;
    while (k && sooner(i, heap[(k - 1) >> 1])) { heap[k] = heap[(k - 1) >> 1]; a[heap[k]].at = k; k = (k - 1) >> 1; }
    for (int c; (c = 2 * k + 1) < n; k = c) {
        if (c + 1 < n && sooner(heap[c + 1], heap[c])) c++;
        if (!sooner(heap[c], i)) break;
        heap[k] = heap[c]; a[heap[k]].at = k;
    }
    heap[k] = i; a[i].at = k;
}
static inline void move(Disc *p) { double h = now - p->t; p->x += h * p->u; p->y += h * p->v; p->t = now; }
static void predict(int i) {
    Disc *p = a + i;
    double best = 1e300;
    int who = -1;
    if (p->u != 0) { double h = ((p->cx + (p->u > 0)) * w - p->x) / p->u; if (h < 0) h = 0; if (h < best) { best = h; who = p->u > 0 ? -2 : -3; } }
    if (p->v != 0) { double h = ((p->cy + (p->v > 0)) * w - p->y) / p->v; if (h < 0) h = 0; if (h < best) { best = h; who = p->v > 0 ? -4 : -5; } }
    for (int ox = -1; ox <= 1; ox++) {
        int cx = p->cx + ox; double sx = 0;
        if (cx < 0) { cx += m; sx = -L; } else if (cx >= m) { cx -= m; sx = L; }
        for (int oy = -1; oy <= 1; oy++) {
            int cy = p->cy + oy; double sy = 0;
            if (cy < 0) { cy += m; sy = -L; } else if (cy >= m) { cy -= m; sy = L; }
            for (int j = head[cx * m + cy]; j >= 0; j = a[j].next) {
                if (j == i) continue;
                Disc *q = a + j;
                double h = now - q->t, dx = q->x + h * q->u - p->x + sx, dy = q->y + h * q->v - p->y + sy;
                double du = q->u - p->u, dv = q->v - p->v, b = dx * du + dy * dv;
                if (b >= 0) continue;
                double g = dx * dx + dy * dy - 1, s = du * du + dv * dv, d = b * b - s * g;
                if (d <= 0) continue;
                double in = g > 0 ? g / (sqrt(d) - b) : 0;
                if (in < best) { best = in; who = j; }
            }
        }
    }
    p->when = now + best; p->with = who; p->seen = who >= 0 ? a[who].count : 0;
    sift(i);
}
double discs(int count, double side, double *x, double *v, long collisions) {
    n = count; L = side; m = (int)L; if (m > sqrt(n)) m = (int)ceil(sqrt(n)); w = L / m; now = work = 0;
    a = malloc(n * sizeof *a); heap = malloc(n * sizeof *heap); head = malloc(m * m * sizeof *head);
    for (int k = 0; k < m * m; k++) head[k] = -1;
    for (int i = 0; i < n; i++) {
        a[i] = (Disc){x[2 * i], x[2 * i + 1], v[2 * i], v[2 * i + 1], 0, 0, -1, 0, 0, (int)(x[2 * i] / w), (int)(x[2 * i + 1] / w), 0, -1, i};
        heap[i] = i;
        int c = a[i].cx * m + a[i].cy;
        a[i].next = head[c]; if (head[c] >= 0) a[head[c]].prev = i; head[c] = i;
    }
    for (int i = 0; i < n; i++) predict(i);
    while (collisions) {
        int i = heap[0]; Disc *p = a + i; int j = p->with;
        now = p->when; move(p);
        if (j >= 0 && a[j].count != p->seen) { predict(i); continue; }
        if (j < 0) {
            int c = p->cx * m + p->cy;
            if (p->prev >= 0) a[p->prev].next = p->next; else head[c] = p->next;
            if (p->next >= 0) a[p->next].prev = p->prev;
            if (j == -2) { if (++p->cx == m) { p->cx = 0; p->x = 0; } else p->x = p->cx * w; }
            else if (j == -3) { p->x = p->cx * w; if (--p->cx < 0) { p->cx = m - 1; p->x = L; } }
            else if (j == -4) { if (++p->cy == m) { p->cy = 0; p->y = 0; } else p->y = p->cy * w; }
            else { p->y = p->cy * w; if (--p->cy < 0) { p->cy = m - 1; p->y = L; } }
            c = p->cx * m + p->cy;
            p->prev = -1; p->next = head[c]; if (head[c] >= 0) a[head[c]].prev = i; head[c] = i;
            predict(i);
            continue;
        }
        Disc *q = a + j; move(q);
        double dx = q->x - p->x, dy = q->y - p->y;
        if (dx > L / 2) dx -= L; else if (dx < -L / 2) dx += L;
        if (dy > L / 2) dy -= L; else if (dy < -L / 2) dy += L;
        double g = dx * dx + dy * dy, b = (dx * (q->u - p->u) + dy * (q->v - p->v)) / g;
        p->u += b * dx; p->v += b * dy; q->u -= b * dx; q->v -= b * dy;
        work -= b * g; p->count++; q->count++; collisions--;
        predict(i); predict(j);
    }
    double K = 0, Z;
    for (int i = 0; i < n; i++) K += a[i].u * a[i].u + a[i].v * a[i].v;
    Z = 1 + work / (K * now);
    free(a); free(heap); free(head);
    return Z;
}
