/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From groups to fusion instructions. Groups are built in the order in which they stand, so what a group reads is there already. */
#include "fusion.h"

#include <string.h>

typedef struct builder {
  fu_state *f;
  sn_instr **final;      /* by position: what stands for it outside groups */
  sn_instr **copy;       /* by position: its copy in the body being built */
  uint32_t *copied_in;   /* by position: anchor + 1 of the group the copy belongs to */
  sn_instr **operands;   /* of the fusion being built */
  uint32_t n_operands, cap_operands;
  sn_list args;          /* operands of one copy */
} builder;

static sn_status no_memory(const builder *b) { return sn_out_of_memory(b->f->pc->diag, b->f->n * sizeof(void *)); }

static bool is_member(const builder *b, const fu_group *g, uint32_t at) { return b->copied_in[at] == g->anchor + 1; }

/* ---- inputs ---- */

/* A parameter for what lies outside the group. */
static sn_status add_parameter(builder *b, const fu_group *g, sn_computation *body, uint32_t at) {
  sn_builder x;
  if (b->n_operands == b->cap_operands) {
    uint32_t cap = b->cap_operands ? 2 * b->cap_operands : 64;
    sn_instr **wider = SN_NEW_N(b->f->pc->scratch, sn_instr *, cap);
    if (!wider) return no_memory(b);
    if (b->n_operands) memcpy(wider, b->operands, b->n_operands * sizeof *wider);
    b->operands = wider;
    b->cap_operands = cap;
  }
  sn_builder_init(&x, b->f->pc->diag, body);
  const sn_instr *def = b->final[at];
  char name[32];
  snprintf(name, sizeof name, "param_%u", (unsigned)b->n_operands);
  b->copy[at] = sn_build_parameter(&x, b->n_operands, def->shape, name);
  if (!b->copy[at]) return x.status == SN_ERR_MEMORY ? no_memory(b) : x.status;
  b->copied_in[at] = g->anchor + 1;
  b->operands[b->n_operands++] = b->final[at];
  return SN_OK;
}

static sn_status add_inputs(builder *b, const fu_group *g, sn_computation *body) {
  b->n_operands = 0;
  for (uint32_t k = 0; k < g->n; k++) b->copied_in[g->members[k].at] = g->anchor + 1;
  for (uint32_t k = g->n; k-- > 0;) {
    const sn_instr *i = b->f->facts[g->members[k].at].i;
    for (uint32_t o = 0; o < i->n_operands; o++) {
      uint32_t at = fu_position(b->f, sn_instr_operand(i, o));
      if (!is_member(b, g, at)) SN_TRY(add_parameter(b, g, body, at));
    }
  }
  return SN_OK;
}

/* ---- the body ---- */

static sn_status add_copies(builder *b, const fu_group *g, sn_computation *body) {
  for (uint32_t k = g->n; k-- > 0;) {
    uint32_t at = g->members[k].at;
    const sn_instr *i = b->f->facts[at].i;
    b->args.n = 0;
    for (uint32_t o = 0; o < i->n_operands; o++) {
      if (sn_list_push(&b->args, b->copy[fu_position(b->f, sn_instr_operand(i, o))]) != SN_OK) return no_memory(b);
    }
    SN_TRY(sn_instr_clone(i, body, i->n_operands ? b->args.v : NULL, NULL, &b->copy[at]));
  }
  return SN_OK;
}

static sn_status set_root(builder *b, const fu_group *g, sn_computation *body) {
  if (g->n_results == 1) {
    sn_computation_set_root(body, b->copy[g->anchor]);
    return SN_OK;
  }
  sn_builder x;
  sn_builder_init(&x, b->f->pc->diag, body);
  b->args.n = 0;
  for (uint32_t k = g->n; k-- > 0;) {
    if (g->members[k].result && sn_list_push(&b->args, b->copy[g->members[k].at]) != SN_OK) return no_memory(b);
  }
  sn_instr *root = sn_build_tuple(&x, (uint32_t)b->args.n, b->args.v);
  if (!root) return x.status == SN_ERR_MEMORY ? no_memory(b) : x.status;
  sn_computation_set_root(body, root);
  return SN_OK;
}

/* ---- the fusion ---- */

/* The member that decides how the fusion is lowered. */
static uint32_t hero_of(const builder *b, const fu_group *g, const char **kind) {
  if (g->hero_in) {
    const sn_instr *i = b->f->facts[g->hero].i;
    *kind = i->op == SN_OP_CONVOLUTION ? sn_opcode_text(i->op) : g->product ? "product" : i->op == SN_OP_DOT ? "dot" : sn_opcode_text(i->op);
    return g->hero;
  }
  *kind = g->columns ? "columns" : g->has_rows ? "rows" : "loop";
  for (uint32_t k = 0; k < g->n && g->has_rows; k++) {
    if (b->f->facts[g->members[k].at].cls == FU_ROW) return g->members[k].at;
  }
  return g->anchor;
}

/* What the fusion is called: the patterns it holds, behind its kind where it does other work too. */
static sn_status name_fusion(uint32_t patterns, bool only, const char *kind, sn_instr *fusion) {
  char names[128], name[192];
  sn_fusion_pattern_names(patterns, '_', names, sizeof names);
  for (char *p = names; *p; p++) *p = *p == '-' ? '_' : *p;
  snprintf(name, sizeof name, only ? "%s%s_fusion" : "%s_%s_fusion", only ? "" : kind, names);
  return sn_instr_set_name(fusion, name);
}

/* The hero's name must not tell one layer from the next: equal fusions share a kernel. */
static sn_status mark_hero(builder *b, const fu_group *g, uint32_t patterns, bool only, sn_instr *fusion) {
  const char *kind;
  uint32_t at = hero_of(b, g, &kind);
  char text[320], name[64], names[128];
  snprintf(name, sizeof name, "hero_%s", sn_opcode_text(b->f->facts[at].i->op));
  SN_TRY(sn_instr_set_name(b->copy[at], name));
  sn_fusion_pattern_names(patterns, ',', names, sizeof names);
  snprintf(text, sizeof text, "{\"sinter\":{\"version\":1,\"hero\":\"%s\",\"kind\":\"%s\"%s%s%s}}", b->copy[at]->name, kind, patterns ? ",\"pattern\":\"" : "", names, patterns ? "\"" : "");
  SN_TRY(sn_instr_set_backend_config(fusion, text, false));
  return patterns ? name_fusion(patterns, only, kind, fusion) : SN_OK;
}

static int64_t kind_of(const fu_group *g, bool is_pattern) {
  if (is_pattern) return SN_FUSION_KIND_CUSTOM;
  if (g->hero_in && g->product) return SN_FUSION_KIND_OUTPUT;
  return g->hero_in || g->has_rows || g->columns ? SN_FUSION_KIND_INPUT : SN_FUSION_KIND_LOOP;
}

static sn_status make_fusion(builder *b, const fu_group *g, sn_computation *body, sn_instr **out) {
  sn_instr *anchor = b->f->facts[g->anchor].i;
  bool only;
  uint32_t patterns = sn_fusion_patterns_in(b->f, g, &only);
  sn_attr kind = sn_attr_int(SN_ATTR_KIND, kind_of(g, patterns && only));
  sn_instr_spec spec = {0};
  spec.op = SN_OP_FUSION;
  spec.shape = body->root->shape;
  spec.n_operands = b->n_operands;
  spec.operands = b->operands;
  spec.n_attrs = 1;
  spec.attrs = &kind;
  spec.n_called = 1;
  spec.called = &body;
  spec.metadata = anchor->metadata;
  spec.loc = anchor->loc;
  SN_TRY(sn_instr_create(b->f->pc->diag, b->f->c, &spec, out));
  sn_instr_move_before(*out, anchor);
  if (anchor->sharding && g->n_results == 1) sn_instr_set_sharding(*out, anchor->sharding);
  SN_TRY(mark_hero(b, g, patterns, only, *out));
  sn_fusion_note_patterns(b->f, g, only, *out);
  return SN_OK;
}

/* Results by their place in the tuple. */
static sn_status set_results(builder *b, const fu_group *g, sn_instr *fusion) {
  if (g->n_results == 1) {
    b->final[g->anchor] = fusion;
    return SN_OK;
  }
  int64_t index = 0;
  for (uint32_t k = g->n; k-- > 0;) {
    if (!g->members[k].result) continue;
    uint32_t at = g->members[k].at;
    sn_builder x;
    sn_builder_init_at(&x, b->f->pc->diag, b->f->facts[g->anchor].i);
    x.loc = b->f->facts[at].i->loc;
    x.metadata = b->f->facts[at].i->metadata;
    b->final[at] = sn_build_get(&x, fusion, index++);
    if (!b->final[at]) return x.status == SN_ERR_MEMORY ? no_memory(b) : x.status;
  }
  return SN_OK;
}

static sn_status build_group(builder *b, const fu_group *g) {
  sn_computation *body;
  sn_instr *fusion;
  SN_TRY(sn_computation_create(b->f->c->module, "fused_computation", &body));
  sn_computation_move_before(body, b->f->c);
  SN_TRY(add_inputs(b, g, body));
  SN_TRY(add_copies(b, g, body));
  SN_TRY(set_root(b, g, body));
  SN_TRY(make_fusion(b, g, body, &fusion));
  return set_results(b, g, fusion);
}

/* A reshape outside all groups renames its operand's memory. */
static sn_status build_rename(builder *b, uint32_t at) {
  sn_instr *i = b->f->facts[at].i, *x = b->final[fu_position(b->f, sn_instr_operand(i, 0))];
  sn_builder y;
  sn_builder_init_at(&y, b->f->pc->diag, i);
  b->final[at] = sn_build(&y, SN_OP_BITCAST, i->shape, 1, &x, 0, NULL, 0, NULL);
  b->f->pc->changed = true;
  if (!b->final[at]) return y.status == SN_ERR_MEMORY ? no_memory(b) : y.status;
  return sn_instr_copy_notes(b->final[at], i);
}

static bool stays(const fu_fact *x) { return x->cls == FU_ALONE || x->i->op == SN_OP_CONSTANT; }

/* What stays outside reads the fusions; what went into them goes. */
static void redirect(builder *b) {
  fu_state *f = b->f;
  for (uint32_t at = 0; at < f->n; at++) {
    sn_instr *i = f->facts[at].i;
    if (!stays(&f->facts[at])) continue;
    for (uint32_t k = 0; k < i->n_operands; k++) {
      sn_instr *now = b->final[fu_position(f, sn_instr_operand(i, k))];
      if (now != sn_instr_operand(i, k)) sn_instr_set_operand(i, k, now);
    }
  }
  sn_instr *root = b->final[fu_position(f, f->c->root)];
  if (root != f->c->root) sn_computation_set_root(f->c, root);
  for (uint32_t at = f->n; at-- > 0;) {
    sn_instr *i = f->facts[at].i;
    if (f->facts[at].cls == FU_ALONE || i->n_uses || i == f->c->root) continue;
    sn_instr_erase(i);
  }
}

static sn_status build_all(builder *b) {
  fu_state *f = b->f;
  fu_group **begun = SN_NEW_N(f->pc->scratch, fu_group *, f->n + 1);
  if (!begun) return no_memory(b);
  for (fu_group *g = f->groups; g; g = g->next) begun[g->anchor] = g->n ? g : NULL;
  for (uint32_t at = 0; at < f->n; at++) {
    if (!b->final[at]) b->final[at] = f->facts[at].i;
    if (begun[at]) SN_TRY(build_group(b, begun[at]));
    if (f->renamed[at]) SN_TRY(build_rename(b, at));
  }
  redirect(b);
  return SN_OK;
}

sn_status sn_fusion_build(fu_state *f) {
  sn_arena *a = f->pc->scratch;
  builder b;
  memset(&b, 0, sizeof b);
  b.f = f;
  b.final = SN_NEW_N(a, sn_instr *, f->n + 1);
  b.copy = SN_NEW_N(a, sn_instr *, f->n + 1);
  b.copied_in = SN_NEW_N(a, uint32_t, f->n + 1);
  sn_status s = b.final && b.copy && b.copied_in ? build_all(&b) : no_memory(&b);
  sn_list_finish(&b.args);
  return s;
}
