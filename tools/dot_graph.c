/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "dot_graph.h"

#include <string.h>

static void quoted(sn_str *to, const char *s) {
  sn_str_char(to, '"');
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') sn_str_char(to, '\\');
    sn_str_char(to, *s);
  }
  sn_str_char(to, '"');
}

/* Colours by what an instruction costs: products, reductions, movement, control, the rest. */
static const char *colour_of(const sn_instr *i) {
  switch (i->op) {
    case SN_OP_PARAMETER: return "#ffe0b2";
    case SN_OP_CONSTANT:
    case SN_OP_IOTA: return "#eeeeee";
    case SN_OP_DOT:
    case SN_OP_CONVOLUTION: return "#90caf9";
    case SN_OP_REDUCE:
    case SN_OP_REDUCE_WINDOW: return "#ce93d8";
    case SN_OP_FUSION: return "#a5d6a7";
    default: return sn_op_has(i->op, SN_T_CALLS) ? "#ffab91" : sn_op_has(i->op, SN_T_ELTWISE) ? "#fff9c4" : "#ffffff";
  }
}

static void node(sn_str *to, const sn_instr *i) {
  sn_str label = {0};
  sn_str_printf(&label, "%s\n%s ", i->name, sn_opcode_text(i->op));
  sn_shape_print(&label, i->shape, SN_SHAPE_LAYOUT);
  if (i->metadata && i->metadata->source_file) sn_str_printf(&label, "\n%s:%d", i->metadata->source_file, (int)i->metadata->source_line);
  if (label.failed) to->failed = true;
  sn_str_printf(to, "    n%u [style=filled, fillcolor=\"%s\"%s, label=", (unsigned)i->id, colour_of(i), sn_instr_is_root(i) ? ", penwidth=3" : "");
  sn_str_char(to, '"');
  for (const char *p = label.data ? label.data : ""; *p; p++) {
    if (*p == '\n') sn_str_add(to, "\\n");
    else if (*p == '"' || *p == '\\') sn_str_printf(to, "\\%c", *p);
    else sn_str_char(to, *p);
  }
  sn_str_add(to, "\"];\n");
  sn_str_finish(&label);
}

static void edges(sn_str *to, const sn_instr *i) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_str_printf(to, "    n%u -> n%u", (unsigned)i->operands[k].def->id, (unsigned)i->id);
    if (i->n_operands > 1) sn_str_printf(to, " [headlabel=\"%u\"]", (unsigned)k);
    sn_str_add(to, ";\n");
  }
  for (uint16_t k = 0; k < i->n_control; k++) {
    sn_str_printf(to, "    n%u -> n%u [style=dotted];\n", (unsigned)i->control[k]->id, (unsigned)i->id);
  }
}

void sn_dot_graph(sn_str *to, const sn_module *m) {
  sn_str_add(to, "digraph ");
  quoted(to, m->name ? m->name : "module");
  sn_str_add(to, " {\n  node [shape=box, fontname=\"monospace\", fontsize=10];\n  edge [fontsize=8];\n");
  SN_FOR_COMPUTATIONS(c, m) {
    sn_str_printf(to, "  subgraph cluster_%u {\n    label=", (unsigned)c->id);
    quoted(to, c->name);
    sn_str_add(to, c == m->entry ? ";\n    penwidth=3;\n" : ";\n");
    SN_FOR_INSTRS(i, c) node(to, i);
    SN_FOR_INSTRS(i, c) edges(to, i);
    sn_str_add(to, "  }\n");
  }
  SN_FOR_COMPUTATIONS(c, m) { /* to the root of what is called */
    SN_FOR_INSTRS(i, c) {
      for (uint16_t k = 0; k < i->n_called; k++) {
        if (i->called[k]->root) sn_str_printf(to, "  n%u -> n%u [style=dashed, color=gray];\n", (unsigned)i->called[k]->root->id, (unsigned)i->id);
      }
    }
  }
  sn_str_add(to, "}\n");
}
