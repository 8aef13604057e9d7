/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The module: entry, parameters with their notes, aliases; the door from text and bytecode; folding. */
#include <inttypes.h>
#include <string.h>

#include "map.h"

void sn_stablehlo_options_init(sn_stablehlo_options *o) {
  memset(o, 0, sizeof *o);
  o->struct_size = sizeof *o;
}

bool sn_stablehlo_is_bytecode(const void *data, size_t n_bytes) { return n_bytes >= 4 && memcmp(data, "ML\xefR", 4) == 0; }

/* The first line that is no comment: `module`, an alias, a function, a generic op. HLO text begins with HloModule, ENTRY, % or a name. */
bool sn_stablehlo_is_text(const char *p, size_t n) {
  static const char *const starts[] = {"module ", "module{", "module@", "\"builtin.module\"", "builtin.module", "func.func", "func @", "#", "!", "\"func.func\"", "sdy.", "\"stablehlo.", "stablehlo."};
  const char *end = p + n;
  for (;;) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    if (end - p < 2 || p[0] != '/' || p[1] != '/') break;
    while (p < end && *p != '\n') p++;
  }
  for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
    size_t bytes = strlen(starts[i]);
    if ((size_t)(end - p) >= bytes && strncmp(p, starts[i], bytes) == 0) return true;
  }
  return false;
}

/* ---- folding ---- */

static bool foldable(const sn_instr *i) {
  return sn_op_has(i->op, SN_T_PURE) && !sn_op_has(i->op, SN_T_DEVICE) && i->n_called == 0 && sn_shape_is_array(i->shape) && sn_shape_is_static(i->shape) &&
         sn_shape_elements(i->shape) <= SN_SM_MAX_FOLD;
}

enum { UNKNOWN = 1 }; /* in the map: tried, no constant */

/* Operands have been tried already. */
static sn_array *fold_one(sn_sm *s, const sn_instr *i) {
  if (i->op == SN_OP_CONSTANT) return sn_instr_literal(i) != NULL ? sn_array_retain(sn_instr_literal(i)) : NULL;
  sn_array **in = SN_NEW_N(s->scratch, sn_array *, i->n_operands + 1), *out = NULL;
  if (in == NULL) return NULL;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    in[k] = sn_map_get_u64(s->folded, (uint64_t)(uintptr_t)sn_instr_operand(i, k));
    if (in[k] == NULL || (uintptr_t)in[k] == UNKNOWN) return NULL;
  }
  sn_eval_options o;
  sn_eval_options_init(&o);
  return sn_eval_instr(NULL, i, &o, in, &out) == SN_OK ? out : NULL;
}

/* Operands first, on a stack of our own: chains of instructions are as long as the user likes. */
typedef struct fold_stack {
  sn_instr **v;
  uint32_t n, cap;
} fold_stack;

static bool push(fold_stack *st, sn_instr *i) {
  if (st->n == st->cap) {
    uint32_t cap = st->cap ? st->cap * 2 : 64;
    sn_instr **v = sn_realloc(st->v, cap * sizeof *v);
    if (v == NULL) return false;
    st->v = v;
    st->cap = cap;
  }
  st->v[st->n++] = i;
  return true;
}

static bool push_operands(sn_sm *s, fold_stack *st, const sn_instr *i, bool *pending) {
  *pending = false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *x = sn_instr_operand(i, k);
    if (sn_map_get_u64(s->folded, (uint64_t)(uintptr_t)x) != NULL) continue;
    *pending = true;
    if (!push(st, x)) return false;
  }
  return true;
}

static bool fold_run(sn_sm *s, fold_stack *st) {
  while (st->n > 0) {
    sn_instr *i = st->v[st->n - 1];
    uint64_t key = (uint64_t)(uintptr_t)i;
    bool pending = false;
    if (sn_map_get_u64(s->folded, key) != NULL) {
      st->n--;
      continue;
    }
    bool able = foldable(i);
    if (able && !push_operands(s, st, i, &pending)) return false;
    if (pending) continue;
    sn_array *a = able ? fold_one(s, i) : NULL;
    if (sn_map_set_u64(s->folded, key, a != NULL ? (void *)a : (void *)(uintptr_t)UNKNOWN) != SN_OK) {
      sn_array_release(a);
      return false;
    }
    st->n--;
  }
  return true;
}

const sn_array *sn_sm_fold(sn_sm *s, sn_instr *i) {
  fold_stack st = {NULL, 0, 0};
  if (i == NULL) return NULL;
  bool ok = push(&st, i) && fold_run(s, &st);
  sn_free(st.v);
  void *v = ok ? sn_map_get_u64(s->folded, (uint64_t)(uintptr_t)i) : NULL;
  return (uintptr_t)v > UNKNOWN ? v : NULL;
}

sn_status sn_sm_fold_ints(sn_sm *s, const sn_mlir_op *op, sn_instr *i, const char *what, int64_t *n, const int64_t **v) {
  const sn_array *a = sn_sm_fold(s, i);
  if (a == NULL) {
    sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "expected %s that can be computed before the program runs, found a value of the run", what);
    sn_hint(s->d, "shapes may depend on the shapes of the arguments and on dimension variables, not on data");
    return SN_ERR_UNSUPPORTED;
  }
  sn_type t = sn_array_shape(a)->type;
  if (sn_type_is_float(t) || sn_type_is_complex(t)) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected integers for %s, found %s", what, sn_type_text(t));
  *n = sn_shape_elements(sn_array_shape(a));
  int64_t *to = SN_NEW_N(s->scratch, int64_t, *n + 1);
  if (to == NULL) return sn_sm_memory(s);
  for (int64_t k = 0; k < *n; k++) to[k] = sn_load_i64(t, (const char *)sn_array_data(a) + (size_t)k * sn_type_bytes(t));
  *v = to;
  return SN_OK;
}

/* ---- the entry ---- */

static const sn_mlir_attr *dict_of(const sn_mlir_op *f, const char *name, uint32_t k) {
  const sn_mlir_attr *a = sn_mlir_find(f, name);
  return a != NULL && a->kind == SN_MA_ARRAY && k < a->n && a->items[k]->kind == SN_MA_DICT ? a->items[k] : NULL;
}

/* An integer scalar in front of the arrays of a program with `?` stands for a dimension, unless it says that it is something else. */
static bool is_dimension_variable(sn_sm *s, const sn_mlir_op *f, const sn_mlir_block *b, uint32_t k) {
  const sn_mlir_type *t = b->args[k].type;
  if (!s->dynamic || s->o->every_dimension == 0) return false;
  if (s->o->n_arg_shapes != 0 && s->o->arg_shapes[k] != NULL) return false;
  if (t->kind != SN_MT_TENSOR || t->rank != 0 || t->element->kind != SN_MT_SCALAR) return false;
  if (t->element->scalar != SN_TYPE_S32 && t->element->scalar != SN_TYPE_S64) return false;
  for (uint32_t i = 0; i < k; i++)
    if (b->args[i].type->kind != SN_MT_TENSOR || b->args[i].type->rank != 0) return false;
  (void)f;
  return true;
}

static sn_status arg_shape(sn_sm *s, const sn_mlir_op *f, const sn_mlir_block *b, uint32_t k, const sn_shape **out) {
  const sn_mlir_type *t = b->args[k].type;
  if (s->o->n_arg_shapes != 0 && s->o->arg_shapes[k] != NULL) {
    *out = sn_shape_clone(sn_sm_arena(s), s->o->arg_shapes[k]);
    return *out != NULL ? SN_OK : sn_sm_memory(s);
  }
  if (s->o->every_dimension == 0 || t->kind != SN_MT_TENSOR || sn_sm_is_static(t)) return sn_sm_shape(s, f, t, out);
  int64_t dims[SN_MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i] == SN_DIM_UNBOUNDED ? s->o->every_dimension : t->dims[i];
  return sn_sm_shape_of_dims(s, f, sn_mlir_storage(t), t->rank, dims, out);
}

static sn_status bind_arg(sn_sm *s, const sn_mlir_op *f, const sn_mlir_block *b, uint32_t k) {
  const sn_shape *shape = NULL;
  const sn_mlir_attr *notes = dict_of(f, "arg_attrs", k);
  SN_TRY(arg_shape(s, f, b, k, &shape));
  sn_instr *p = sn_build_parameter(&s->b, k, shape, NULL);
  SN_TRY(sn_sm_built(s));
  s->values[b->args[k].id] = p;
  if (notes != NULL) SN_TRY(sn_sm_sharding_notes(s, notes->members, (uint32_t)notes->n, p));
  const sn_mlir_attr *global = sn_mlir_member(notes, "jax.global_constant");
  bool platform = global != NULL && global->s != NULL && strcmp(global->s, "_platform_index") == 0;
  if (platform || is_dimension_variable(s, f, b, k))
    s->values[b->args[k].id] = sn_build_scalar_i64(&s->b, shape->type, platform ? s->o->platform : s->o->every_dimension);
  return sn_sm_built(s);
}

static sn_status block_of(sn_sm *s, const sn_mlir_op *f, const sn_mlir_op **end) {
  for (const sn_mlir_op *op = f->regions[0].first->first; op != NULL; op = op->next) {
    if (strcmp(op->name, "func.return") == 0 || strcmp(op->name, "stablehlo.return") == 0) {
      *end = op;
      return SN_OK;
    }
    SN_TRY(sn_sm_op(s, op));
  }
  return sn_sm_fail(s, f, SN_ERR_VERIFY, "expected a return at the end of the function, found none");
}

/* Several results, or none, are a tuple. */
static sn_status entry_root(sn_sm *s, const sn_mlir_op *f, const sn_mlir_op *end) {
  sn_instr **v = SN_NEW_N(s->scratch, sn_instr *, end->n_operands + 1);
  if (v == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < end->n_operands; i++) {
    v[i] = s->values[end->operands[i]->id];
    if (v[i] == NULL) return sn_sm_fail(s, end, SN_ERR_NAME, "operand %" PRIu32 " is used before it is defined", i);
    const sn_mlir_attr *notes = dict_of(f, "res_attrs", i);
    if (notes != NULL && v[i]->op != SN_OP_PARAMETER) SN_TRY(sn_sm_sharding_notes(s, notes->members, (uint32_t)notes->n, v[i]));
  }
  s->b.loc = end->loc;
  s->b.metadata = NULL;
  sn_instr *root = end->n_operands == 1 ? v[0] : sn_build_tuple(&s->b, end->n_operands, v);
  SN_TRY(sn_sm_built(s));
  sn_computation_set_root(s->b.c, root);
  return SN_OK;
}

/* `tf.aliasing_output = N`: this argument's buffer is result N's; `jax.buffer_donor`: it may be any result's. */
static sn_status aliases(sn_sm *s, const sn_mlir_op *f) {
  const sn_mlir_block *b = f->regions[0].first;
  sn_alias *alias = SN_NEW_N(sn_sm_arena(s), sn_alias, b->n_args + 1), *donor = SN_NEW_N(sn_sm_arena(s), sn_alias, b->n_args + 1);
  bool tuple = sn_shape_is_tuple(s->m->entry->root->shape);
  if (alias == NULL || donor == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < b->n_args; i++) {
    const sn_mlir_attr *notes = dict_of(f, "arg_attrs", i), *to = sn_mlir_member(notes, "tf.aliasing_output"), *gives = sn_mlir_member(notes, "jax.buffer_donor");
    if (to != NULL && to->kind == SN_MA_INT) {
      int64_t *index = SN_NEW_N(sn_sm_arena(s), int64_t, 1);
      if (index == NULL) return sn_sm_memory(s);
      *index = to->i;
      if (to->i < 0 || to->i >= (tuple ? s->m->entry->root->shape->n_elements : 1))
        return sn_sm_fail(s, f, SN_ERR_ATTRIBUTE, "argument %" PRIu32 " aliases result %" PRId64 ", which does not exist", i, to->i);
      alias[s->m->n_aliases++] = (sn_alias){{tuple ? 1 : 0, index}, i, {0, NULL}, false};
    } else if (gives != NULL && (gives->kind == SN_MA_UNIT || gives->i != 0)) {
      donor[s->m->n_donors++] = (sn_alias){{0, NULL}, i, {0, NULL}, false};
    }
  }
  s->m->aliases = alias;
  s->m->donors = donor;
  return SN_OK;
}

static sn_status map_entry(sn_sm *s, const sn_mlir_op *f, const char *name) {
  const sn_mlir_op *end = NULL;
  sn_computation *c = NULL;
  if (f->n_regions != 1 || f->regions[0].n_blocks != 1) return sn_sm_fail(s, f, SN_ERR_UNSUPPORTED, "@%s has no body, or branches between blocks", name);
  const sn_mlir_block *b = f->regions[0].first;
  if (s->o->n_arg_shapes != 0 && (uint32_t)s->o->n_arg_shapes != b->n_args)
    return sn_sm_fail(s, f, SN_ERR_USAGE, "expected shapes for %" PRIu32 " arguments of @%s, found %d", b->n_args, name, s->o->n_arg_shapes);
  if (sn_computation_create(s->m, name, &c) != SN_OK) return sn_sm_memory(s);
  sn_module_set_entry(s->m, c);
  sn_builder_init(&s->b, s->d, c);
  s->b.loc = f->loc;
  if (sn_map_set_u64(s->on_stack, (uint64_t)(uintptr_t)f, s) != SN_OK) return sn_sm_memory(s);
  for (uint32_t i = 0; i < b->n_args; i++) SN_TRY(bind_arg(s, f, b, i));
  SN_TRY(block_of(s, f, &end));
  SN_TRY(entry_root(s, f, end));
  return aliases(s, f);
}

/* ---- the module ---- */

static bool type_is_dynamic(const sn_mlir_type *t) {
  for (uint32_t i = 0; i < t->n_ins; i++)
    if (type_is_dynamic(t->ins[i])) return true;
  return !sn_sm_is_static(t);
}

static bool region_is_dynamic(const sn_mlir_region *r);
static bool block_is_dynamic(const sn_mlir_block *b) {
  for (uint32_t i = 0; i < b->n_args; i++)
    if (type_is_dynamic(b->args[i].type)) return true;
  for (const sn_mlir_op *op = b->first; op != NULL; op = op->next) {
    for (uint32_t i = 0; i < op->n_results; i++)
      if (type_is_dynamic(op->results[i].type)) return true;
    for (uint32_t k = 0; k < op->n_regions; k++)
      if (region_is_dynamic(&op->regions[k])) return true;
  }
  return false;
}
static bool region_is_dynamic(const sn_mlir_region *r) {
  for (const sn_mlir_block *b = r->first; b != NULL; b = b->next)
    if (block_is_dynamic(b)) return true;
  return false;
}

static int64_t module_int(const sn_mlir *in, const char *name) {
  for (uint32_t i = 0; i < in->n_attrs; i++)
    if (strcmp(in->attrs[i].name, name) == 0 && in->attrs[i].attr->kind == SN_MA_INT && in->attrs[i].attr->i > 0) return in->attrs[i].attr->i;
  return 1;
}

/* `main`, or the only function. */
static sn_status find_entry(sn_sm *s, const char **name, const sn_mlir_op **out) {
  const sn_mlir_op *only = NULL;
  size_t n = 0;
  for (const sn_mlir_op *op = s->in->top.first; op != NULL; op = op->next) {
    const char *symbol = sn_mlir_string(op, "sym_name");
    if (strcmp(op->name, "func.func") != 0) {
      if (strcmp(op->name, "sdy.mesh") == 0) continue;
      return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "expected a function in the module, found another op");
    }
    if (symbol == NULL) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected the attribute sym_name, found none");
    if (sn_map_get_str(s->functions, symbol) != NULL) return sn_sm_fail(s, op, SN_ERR_NAME, "@%s is defined twice", symbol);
    if (sn_map_set_str(s->functions, symbol, (void *)(uintptr_t)op) != SN_OK) return sn_sm_memory(s);
    only = op;
    n++;
  }
  const char *wanted = s->o->entry != NULL ? s->o->entry : "main";
  *out = sn_map_get_str(s->functions, wanted);
  if (*out == NULL && s->o->entry == NULL && n == 1) *out = only;
  if (*out == NULL) {
    sn_error(s->d, SN_NOWHERE, SN_ERR_NAME, "the module has no function @%s", wanted);
    sn_hint(s->d, "the entry is @main, or the only function of the module");
    return SN_ERR_NAME;
  }
  *name = sn_mlir_string(*out, "sym_name");
  return SN_OK;
}

static sn_status begin(sn_sm *s) {
  if (sn_arena_create(&s->scratch) != SN_OK || sn_map_create(&s->computations) != SN_OK || sn_map_create(&s->on_stack) != SN_OK ||
      sn_map_create(&s->folded) != SN_OK || sn_map_create(&s->functions) != SN_OK || sn_module_create(s->in->name != NULL ? s->in->name : "main", &s->m) != SN_OK)
    return sn_sm_memory(s);
  s->values = sn_alloc_zero((size_t)s->in->n_values + 1, sizeof *s->values);
  if (s->values == NULL) return sn_sm_memory(s);
  s->m->replica_count = module_int(s->in, "mhlo.num_replicas");
  s->m->num_partitions = module_int(s->in, "mhlo.num_partitions");
  s->dynamic = block_is_dynamic(&s->in->top);
  return SN_OK;
}

static void end_map(sn_sm *s) {
  if (s->folded != NULL) {
    for (size_t i = 0; i < sn_map_slots(s->folded); i++) {
      const void *key = NULL;
      size_t bytes = 0;
      uint64_t v = 0;
      if (sn_map_at(s->folded, i, &key, &bytes, &v) && v > UNKNOWN) sn_array_release((sn_array *)(uintptr_t)v);
    }
  }
  sn_map_destroy(s->folded);
  sn_map_destroy(s->computations);
  sn_map_destroy(s->on_stack);
  sn_map_destroy(s->functions);
  sn_free(s->values);
  sn_arena_destroy(s->scratch);
}

/* mhlo.frontend_attributes of the module. */
static sn_status module_notes(sn_sm *s) {
  for (uint32_t k = 0; k < s->in->n_attrs; k++) {
    const sn_mlir_attr *a = s->in->attrs[k].attr;
    if (strcmp(s->in->attrs[k].name, "mhlo.frontend_attributes") != 0 || a->kind != SN_MA_DICT) continue;
    sn_pair *p = SN_NEW_N(sn_sm_arena(s), sn_pair, a->n + 1);
    if (p == NULL) return sn_sm_memory(s);
    s->m->frontend = p;
    for (int64_t i = 0; i < a->n; i++) {
      const char *key = sn_arena_string(sn_sm_arena(s), a->members[i].name), *value = a->members[i].attr->s != NULL ? sn_arena_string(sn_sm_arena(s), a->members[i].attr->s) : "";
      if (key == NULL || value == NULL) return sn_sm_memory(s);
      p[s->m->n_frontend++] = (sn_pair){key, value, false};
    }
  }
  return SN_OK;
}

/* XLA keeps the sharding meshes as a module attribute. */
static sn_status meshes(sn_sm *s) {
  sn_str text = {0};
  for (const sn_mlir_op *op = s->in->top.first; op != NULL; op = op->next) {
    const sn_mlir_attr *mesh = strcmp(op->name, "sdy.mesh") == 0 ? sn_mlir_find(op, "mesh") : NULL;
    if (mesh == NULL || mesh->s == NULL) continue;
    sn_str_add(&text, text.n == 0 ? "{" : ", ");
    sn_str_printf(&text, "%s = #sdy.mesh<%s>", sn_mlir_string(op, "sym_name"), mesh->s);
  }
  if (text.n == 0) return module_notes(s);
  sn_str_char(&text, '}');
  sn_pair *p = SN_NEW_N(sn_sm_arena(s), sn_pair, 1);
  char *value = text.failed ? NULL : sn_arena_string_n(sn_sm_arena(s), text.data, text.n);
  sn_str_finish(&text);
  if (p == NULL || value == NULL) return sn_sm_memory(s);
  *p = (sn_pair){"xla.sdy.meshes", value, false};
  s->m->frontend = p;
  s->m->n_frontend = 1;
  return SN_OK;
}

/* Results of ops that nobody uses. */
static void drop_unused(sn_sm *s) {
  SN_FOR_COMPUTATIONS(c, s->m) SN_FOR_INSTRS_SAFE(i, c) {
    if (i->op == SN_OP_GET_TUPLE_ELEMENT && i->n_uses == 0 && i != c->root) sn_instr_erase(i);
  }
}

static sn_status map_module(sn_sm *s) {
  const char *name = NULL;
  const sn_mlir_op *f = NULL;
  SN_TRY(begin(s));
  SN_TRY(find_entry(s, &name, &f));
  SN_TRY(meshes(s));
  SN_TRY(map_entry(s, f, name));
  SN_TRY(sn_module_sort(s->d, s->m)); /* callees before callers */
  sn_module_drop_dead_computations(s->m);
  drop_unused(s);
  return sn_module_verify(s->d, s->m, 0);
}

static sn_status read_any(sn_diag *d, const char *file, const void *text, size_t n, sn_mlir **out) {
  return sn_stablehlo_is_bytecode(text, n) ? sn_mlir_read_bytecode(d, file, text, n, out) : sn_mlir_read_text(d, file, text, n, out);
}

/* Locations must live as long as the module. */
static sn_status keep_file(sn_module *m, const char *file) {
  const char *name = sn_arena_string(m->arena, file != NULL ? file : "<text>");
  if (name == NULL) return SN_ERR_MEMORY;
  SN_FOR_COMPUTATIONS(c, m) {
    if (c->loc.file != NULL) c->loc.file = name;
    SN_FOR_INSTRS(i, c) {
      if (i->loc.file != NULL) i->loc.file = name;
    }
  }
  return SN_OK;
}

sn_status sn_stablehlo_parse(sn_diag *d, const char *file, const void *text, size_t n_bytes, const sn_stablehlo_options *o, sn_module **out) {
  sn_stablehlo_options defaults;
  sn_mlir *in = NULL;
  *out = NULL;
  sn_stablehlo_options_init(&defaults);
  SN_TRY(read_any(d, file, text, n_bytes, &in));
  sn_sm s = {.d = d, .in = in, .o = o != NULL ? o : &defaults};
  sn_status st = map_module(&s);
  if (st == SN_OK) st = keep_file(s.m, file);
  end_map(&s);
  sn_mlir_destroy(in);
  if (st == SN_OK) *out = s.m;
  else sn_module_destroy(s.m);
  return st;
}
