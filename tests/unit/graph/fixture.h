/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_TEST_GRAPH_FIXTURE_H
#define SINTER_TEST_GRAPH_FIXTURE_H

#include <check.h>

#include "sinter/eval.h"
#include "sinter/graph.h"

sn_graph *open_graph(void);
sn_module *finish(sn_graph *g); /* must succeed; the graph goes */
/* Runs a module without parameters; the caller releases the tuple. */
sn_array *run(const sn_module *m, int n, sn_array *const *args);
/* The only output of a graph without parameters, as doubles; the graph goes. n: how many there must be. */
void value_of(sn_graph *g, sn_tensor x, int n, double *out);
sn_tensor vec(sn_graph *g, int n, const double *v); /* f32 constant */
#define VEC(g, ...) vec(g, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
/* The graph's sticky error: status, a piece of its message, this line; the graph goes. */
void expect_error(sn_graph *g, sn_status status, const char *text, uint32_t line);

void add_values(Suite *s);

#endif
