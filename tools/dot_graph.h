/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A module as a graph in Graphviz's language: a cluster for each computation, a node for each instruction. */
#ifndef TOOLS_DOT_GRAPH_H
#define TOOLS_DOT_GRAPH_H

#include "sinter/ir.h"

void sn_dot_graph(sn_str *to, const sn_module *m);

#endif
