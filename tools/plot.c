/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two panels side by side, loss and accuracy against epochs, training and test in one colour each. */
#include <math.h>

#include "train.h"

enum { PANEL_WIDTH = 420, PANEL_HEIGHT = 300, LEFT = 62, TOP = 40, RIGHT = 20, BOTTOM = 48 };

typedef struct axis {
  double low, high, tick;
} axis;

typedef struct series {
  const char *name, *colour;
  size_t offset; /* in train_row */
} series;

typedef struct panel {
  const char *title;
  series lines[2];
  double x0; /* of the panel in the picture */
  axis x, y;
} panel;

static double value_of(const train_row *r, size_t offset) { return *(const double *)(const void *)((const char *)r + offset); }

/* A tick of 1, 2 or 5 times a power of ten that gives at most n intervals. */
static double nice_tick(double range, int n) {
  double raw = range / n, power = pow(10, floor(log10(raw))), m = raw / power;
  return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static axis make_axis(double low, double high, int n) {
  if (!(high > low)) high = low + 1;
  double tick = nice_tick(high - low, n);
  return (axis){floor(low / tick) * tick, ceil(high / tick - 1e-9) * tick, tick};
}

static void fit(panel *p, const train_row *rows, size_t n) {
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < 2; k++) {
      double v = value_of(&rows[i], p->lines[k].offset);
      if (!isfinite(v)) continue;
      low = fmin(low, v);
      high = fmax(high, v);
    }
  if (!isfinite(low)) low = high = 0;
  p->y = make_axis(low, high, 5);
  p->x = make_axis(0, rows[n - 1].epoch, 6);
  p->x.low = 0;
  p->x.high = rows[n - 1].epoch;
  if (p->x.tick < 1) p->x.tick = 1;
}

static double at_x(const panel *p, double v) { return p->x0 + LEFT + (v - p->x.low) / (p->x.high - p->x.low) * (PANEL_WIDTH - LEFT - RIGHT); }
static double at_y(const panel *p, double v) { return TOP + (p->y.high - v) / (p->y.high - p->y.low) * (PANEL_HEIGHT - TOP - BOTTOM); }

static void draw_grid(sn_str *s, const panel *p) {
  double left = at_x(p, p->x.low), right = at_x(p, p->x.high), bottom = at_y(p, p->y.low);
  int n = (int)((p->y.high - p->y.low) / p->y.tick + 0.5);
  for (int i = 0; i <= n; i++) {
    double v = p->y.low + i * p->y.tick, y = at_y(p, v);
    sn_str_printf(s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", left, y, right, y);
    sn_str_printf(s, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", left - 6, y + 4, fabs(v) < p->y.tick / 100 ? 0 : v);
  }
  for (double v = p->x.low; v <= p->x.high + 1e-9; v += p->x.tick) {
    sn_str_printf(s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>\n", at_x(p, v), bottom, at_x(p, v), bottom + 4);
    sn_str_printf(s, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g</text>\n", at_x(p, v), bottom + 18, v);
  }
  sn_str_printf(s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>\n", left, bottom, right, bottom);
  sn_str_printf(s, "<text x=\"%.1f\" y=\"%d\" class=\"title\">%s</text>\n", left, 24, p->title);
  sn_str_printf(s, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">epoch</text>\n", (left + right) / 2, PANEL_HEIGHT - 12);
}

static void draw_line(sn_str *s, const panel *p, int k, const train_row *rows, size_t n) {
  const series *l = &p->lines[k];
  sn_str_printf(s, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", l->colour);
  for (size_t i = 0; i < n; i++) {
    double v = value_of(&rows[i], l->offset);
    if (isfinite(v)) sn_str_printf(s, "%.1f,%.1f ", at_x(p, rows[i].epoch), at_y(p, v));
  }
  sn_str_add(s, "\"/>\n");
  for (size_t i = 0; i < n; i++) {
    double v = value_of(&rows[i], l->offset);
    if (isfinite(v)) sn_str_printf(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"><title>epoch %.0f, %s: %.4g</title></circle>\n", at_x(p, rows[i].epoch), at_y(p, v),
                                   l->colour, rows[i].epoch, l->name, v);
  }
  double x = at_x(p, p->x.high) - 120 + 66 * k;
  sn_str_printf(s, "<rect x=\"%.1f\" y=\"15\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%.1f\" y=\"24\">%s</text>\n", x, l->colour, x + 14, l->name);
}

sn_status plot_write(sn_diag *d, const char *path, const train_row *rows, size_t n) {
  panel panels[2] = {
      {.title = "loss", .lines = {{"training", "#1b6ca8", offsetof(train_row, train_loss)}, {"test", "#c8501e", offsetof(train_row, test_loss)}}},
      {.title = "accuracy", .lines = {{"training", "#1b6ca8", offsetof(train_row, train_accuracy)}, {"test", "#c8501e", offsetof(train_row, test_accuracy)}}, .x0 = PANEL_WIDTH}};
  sn_str s = {0};
  if (n == 0) return SN_OK;
  sn_str_printf(&s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", 2 * PANEL_WIDTH, PANEL_HEIGHT, 2 * PANEL_WIDTH,
                PANEL_HEIGHT);
  sn_str_add(&s, "<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold;font-size:14px}.grid{stroke:#ddd}.axis{stroke:#555}</style>\n"
                 "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  for (int k = 0; k < 2; k++) {
    fit(&panels[k], rows, n);
    draw_grid(&s, &panels[k]);
    for (int l = 0; l < 2; l++) draw_line(&s, &panels[k], l, rows, n);
  }
  sn_str_add(&s, "</svg>\n");
  sn_status status = s.failed ? sn_out_of_memory(d, s.n) : sn_file_write(d, path, s.data, s.n);
  sn_str_finish(&s);
  return status;
}
