"""The event loop of hard bodies as C: cells, one event for each body in a heap, nothing that a compiler may reorder.

The same loop in Python, line by line, is device/host/hard_bodies.py: it is the meaning of this text, to the last bit.
"""

SOURCE = r"""
#include <math.h>
#include <stdint.h>
typedef int64_t I;
typedef struct {
    I n, d, nc[3], walls[3];
    double box[3], size[3], e, now, work, lost;
    I collisions, still;
    double *x, *v, *t, *r, *m, *when;
    I *with, *seen, *count, *cell, *next, *prev, *head, *heap, *place;
} S;

static int before(S *s, I a, I b) { return s->when[a] < s->when[b] || (s->when[a] == s->when[b] && a < b); }
static void put(S *s, I k, I i) { s->heap[k] = i; s->place[i] = k; }
static void sift(S *s, I i) {
    I k = s->place[i];
    while (k > 0 && before(s, i, s->heap[(k - 1) / 2])) { put(s, k, s->heap[(k - 1) / 2]); k = (k - 1) / 2; }
    for (;;) {
        I c = 2 * k + 1;
        if (c >= s->n) break;
        if (c + 1 < s->n && before(s, s->heap[c + 1], s->heap[c])) c++;
        if (!before(s, s->heap[c], i)) break;
        put(s, k, s->heap[c]);
        k = c;
    }
    put(s, k, i);
}
static void move(S *s, I i) {
    double h = s->now - s->t[i];
    for (I a = 0; a < s->d; a++) s->x[i * s->d + a] = s->x[i * s->d + a] + h * s->v[i * s->d + a];
    s->t[i] = s->now;
}
static void predict(S *s, I i) {
    double best = INFINITY;
    I who = -1, d = s->d, c[3], o[3];
    I rest = s->cell[i];
    for (I a = d - 1; a >= 0; a--) { c[a] = rest % s->nc[a]; rest = rest / s->nc[a]; }
    for (I a = 0; a < d; a++) {
        double v = s->v[i * d + a], x = s->x[i * d + a];
        if (v == 0.0) continue;
        I up = v > 0.0, last = s->walls[a] && (up ? c[a] == s->nc[a] - 1 : c[a] == 0);
        double edge = last ? (up ? s->box[a] - s->r[i] : s->r[i]) : (double)(c[a] + up) * s->size[a];
        double h = (edge - x) / v;
        if (h < 0.0) h = 0.0;
        double at = s->now + h;
        if (at < best) { best = at; who = -2 - 2 * a - up; }
    }
    I most = 1;
    for (I a = 0; a < d; a++) most *= 3;
    for (I k = 0; k < most; k++) {
        I rest = k, at = 0, out = 0;
        double shift[3];
        for (I a = 0; a < d; a++) {
            o[a] = c[a] + rest % 3 - 1;
            rest = rest / 3;
            shift[a] = 0.0;
            if (o[a] < 0) { if (s->walls[a]) out = 1; o[a] += s->nc[a]; shift[a] = -s->box[a]; }
            else if (o[a] >= s->nc[a]) { if (s->walls[a]) out = 1; o[a] -= s->nc[a]; shift[a] = s->box[a]; }
            at = at * s->nc[a] + o[a];
        }
        if (out) continue;
        for (I j = s->head[at]; j >= 0; j = s->next[j]) {
            if (j == i) continue;
            double h = s->now - s->t[j], b = 0.0, w = 0.0, g = 0.0, both = s->r[i] + s->r[j];
            for (I a = 0; a < d; a++) {
                double dx = ((s->x[j * d + a] + h * s->v[j * d + a]) - s->x[i * d + a]) + shift[a];
                double dv = s->v[j * d + a] - s->v[i * d + a];
                b = b + dx * dv;
                w = w + dv * dv;
                g = g + dx * dx;
            }
            if (!(b < 0.0)) continue;
            g = g - both * both;
            double q = b * b - w * g;
            if (!(q > 0.0)) continue;
            double in = g > 0.0 ? g / (sqrt(q) - b) : 0.0, when = s->now + in;
            if (when < best) { best = when; who = j; }
        }
    }
    s->when[i] = best;
    s->with[i] = who;
    s->seen[i] = who >= 0 ? s->count[who] : 0;
    sift(s, i);
}
static void leave(S *s, I i, I to) {
    I from = s->cell[i];
    if (s->prev[i] >= 0) s->next[s->prev[i]] = s->next[i]; else s->head[from] = s->next[i];
    if (s->next[i] >= 0) s->prev[s->next[i]] = s->prev[i];
    s->cell[i] = to;
    s->prev[i] = -1;
    s->next[i] = s->head[to];
    if (s->next[i] >= 0) s->prev[s->next[i]] = i;
    s->head[to] = i;
}
void begin(S *s) { for (I i = 0; i < s->n; i++) predict(s, i); }
/* until a time, or so many collisions more; 0: there, 1: collisions are done, 2: time stands still */
I go(S *s, double until, I collisions, I patience) {
    I d = s->d;
    while (collisions > 0) {
        I i = s->heap[0], j = s->with[i];
        if (s->when[i] > until) return 0;
        s->still = s->when[i] > s->now ? 0 : s->still + 1;
        if (s->still > patience) return 2;
        s->now = s->when[i];
        if (j >= 0 && s->count[j] != s->seen[i]) { move(s, i); predict(s, i); continue; }
        move(s, i);
        if (j < 0) {
            I a = (-2 - j) / 2, up = (-2 - j) % 2, c[3], rest = s->cell[i], to = 0;
            for (I k = d - 1; k >= 0; k--) { c[k] = rest % s->nc[k]; rest = rest / s->nc[k]; }
            if (s->walls[a] && (up ? c[a] == s->nc[a] - 1 : c[a] == 0)) {
                double v = s->v[i * d + a], w = -(s->e * v);
                s->lost = s->lost + 0.5 * s->m[i] * (v * v - w * w);
                s->v[i * d + a] = w;
                s->count[i]++;
            } else {
                c[a] += up ? 1 : -1;
                s->x[i * d + a] = (double)(up ? c[a] : c[a] + 1) * s->size[a];
                if (c[a] < 0) { c[a] += s->nc[a]; s->x[i * d + a] = s->box[a]; }
                else if (c[a] >= s->nc[a]) { c[a] -= s->nc[a]; s->x[i * d + a] = 0.0; }
                for (I k = 0; k < d; k++) to = to * s->nc[k] + c[k];
                leave(s, i, to);
            }
            predict(s, i);
            continue;
        }
        move(s, j);
        double dx[3], g = 0.0, b = 0.0;
        for (I a = 0; a < d; a++) {
            dx[a] = s->x[j * d + a] - s->x[i * d + a];
            if (!s->walls[a]) {
                if (dx[a] > 0.5 * s->box[a]) dx[a] = dx[a] - s->box[a];
                else if (dx[a] < -(0.5 * s->box[a])) dx[a] = dx[a] + s->box[a];
            }
            g = g + dx[a] * dx[a];
            b = b + dx[a] * (s->v[j * d + a] - s->v[i * d + a]);
        }
        double mass = (s->m[i] * s->m[j]) / (s->m[i] + s->m[j]), p = ((1.0 + s->e) * mass) * (b / g);
        for (I a = 0; a < d; a++) {
            s->v[i * d + a] = s->v[i * d + a] + (p * dx[a]) / s->m[i];
            s->v[j * d + a] = s->v[j * d + a] - (p * dx[a]) / s->m[j];
        }
        s->work = s->work - p * g;
        s->lost = s->lost + 0.5 * mass * ((1.0 - s->e * s->e) * ((b * b) / g));
        s->count[i]++;
        s->count[j]++;
        s->collisions++;
        collisions--;
        predict(s, i);
        predict(s, j);
    }
    return 1;
}
"""
