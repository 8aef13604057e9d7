/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "graph_internal.h"

#include <string.h>

sn_status sn_graph_create(const char *name, sn_graph **out) {
  *out = NULL;
  sn_graph *g = sn_alloc_zero(1, sizeof *g);
  if (!g) return SN_ERR_MEMORY;
  sn_status s = sn_diag_create(&g->diag);
  if (s == SN_OK) s = sn_arena_create(&g->arena);
  if (s == SN_OK) s = sn_module_create(name, &g->module);
  sn_computation *entry = NULL;
  if (s == SN_OK) s = sn_computation_create(g->module, "main", &entry);
  if (s == SN_OK) {
    sn_module_set_entry(g->module, entry);
    sn_builder_init(&g->b, g->diag, entry);
    s = sn_frame_push(g, SN_FRAME_ENTRY, NULL) ? SN_OK : SN_ERR_MEMORY;
  }
  if (s != SN_OK) {
    sn_graph_destroy(g);
    return s;
  }
  *out = g;
  return SN_OK;
}

void sn_graph_destroy(sn_graph *g) {
  if (!g) return;
  while (g->frame) sn_frame_pop(g);
  sn_str_finish(&g->scope);
  sn_module_destroy(g->module);
  sn_arena_destroy(g->arena);
  sn_diag_destroy(g->diag);
  sn_free(g->outputs);
  sn_free(g->param_names);
  sn_free(g->aliases);
  sn_free(g);
}

sn_status sn_graph_status(const sn_graph *g) { return g->b.status; }
sn_module *sn_graph_module(const sn_graph *g) { return g->module; }
sn_diag *sn_graph_diag(sn_graph *g) { return g->diag; }
int sn_graph_n_parameters(const sn_graph *g) { return g->module ? (int)g->module->entry->n_params : 0; }
int sn_graph_n_outputs(const sn_graph *g) { return g->n_outputs; }

const char *sn_graph_parameter_name(const sn_graph *g, int number) {
  return number >= 0 && number < sn_graph_n_parameters(g) ? g->param_names[number] : NULL;
}

const char *sn_graph_output_name(const sn_graph *g, int index) {
  return index >= 0 && index < g->n_outputs ? g->outputs[index].name : NULL;
}

void sn_graph_no_memory(sn_graph *g) {
  if (g->b.status == SN_OK) g->b.status = sn_out_of_memory(g->diag, 0);
}

sn_status sn_graph_fail(sn_graph *g, sn_loc at, sn_status status, const char *fmt, ...) {
  if (!g) return status;
  g->hinted = g->b.status != SN_OK; /* a hint belongs to the first error alone */
  if (g->b.status != SN_OK) return g->b.status;
  va_list ap;
  va_start(ap, fmt);
  g->b.status = sn_verror(g->diag, g->n_pins ? g->pinned : at, status, fmt, ap);
  va_end(ap);
  return g->b.status;
}

void sn_graph_hint(sn_graph *g, const char *fmt, ...) {
  if (!g || g->hinted) return;
  g->hinted = true;
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  sn_hint(g->diag, "%s", text);
}

/* ---- starting an operation ---- */

static const char *base_name(sn_graph *g, const char *file) {
  if (!file) return NULL;
  if (file != g->file) { /* literals: equal pointers for all calls of one source file */
    const char *slash = strrchr(file, '/');
    g->file = file;
    g->file_base = sn_arena_string(g->module->arena, slash ? slash + 1 : file);
  }
  return g->file_base;
}

static const char *scope_name(sn_graph *g) {
  if (!g->scope_text && g->scope.n) g->scope_text = sn_arena_string(g->module->arena, g->scope.data);
  return g->scope_text;
}

/* Metadata of this place: the latest one again when nothing changed. */
static const sn_metadata *metadata(sn_graph *g, sn_loc at, const char *op_name) {
  const char *file = base_name(g, at.file);
  const sn_metadata *last = g->md;
  if (last && last->source_file == file && last->source_line == (int32_t)at.line && last->op_name == op_name)
    return last;
  sn_metadata *md = SN_NEW(g->module->arena, sn_metadata);
  if (!md) {
    sn_graph_no_memory(g);
    return NULL;
  }
  md->op_name = op_name;
  md->source_file = file;
  md->source_line = (int32_t)at.line;
  return g->md = md;
}

sn_builder *sn_graph_open(sn_graph *g, sn_loc at) {
  if (!g || g->b.status != SN_OK) return NULL;
  if (g->finished) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "the graph is finished: nothing can be added to it");
    return NULL;
  }
  if (g->n_pins) at = g->pinned;
  g->b.loc = at;
  g->b.metadata = metadata(g, at, scope_name(g));
  return g->b.status == SN_OK ? &g->b : NULL;
}

sn_instr *sn_graph_use(sn_graph *g, sn_loc at, sn_tensor x) {
  if (!g || g->b.status != SN_OK) return NULL;
  if (!x.instr) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "an operand is an empty tensor");
    sn_graph_hint(g, "a tensor that was never assigned, or a result slot that a callback left unset");
    return NULL;
  }
  if (x.graph != g) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "operand %s belongs to another graph", sn_tensor_text(x));
    return NULL;
  }
  if (x.instr->parent == g->frame->comp) return x.instr;
  sn_frame *f = g->frame;
  while (f && f->comp != x.instr->parent) f = f->outer;
  if (!f) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "operand %s was made inside a body that is finished", sn_tensor_text(x));
    sn_graph_hint(g, "return it from the callback as one of its results");
    return NULL;
  }
  return sn_frame_capture(g, g->frame, x.instr);
}

sn_instr *sn_graph_enter(sn_loc at, sn_tensor x, sn_builder **b) {
  *b = sn_graph_open(x.graph, at);
  return *b ? sn_graph_use(x.graph, at, x) : NULL;
}

const sn_tensor *sn_graph_list(sn_graph *g, int n, const sn_tensor *xs) {
  static const sn_tensor none = {0};
  if (!g || n <= 0) return n <= 0 ? &none : xs;
  const sn_tensor *copy = sn_arena_copy(g->arena, xs, (size_t)n * sizeof *xs);
  if (!copy) sn_graph_no_memory(g);
  return copy ? copy : xs;
}

void sn_scope_push(sn_graph *g, const char *name) {
  if (!g) return;
  if (g->n_scopes < SN_MAX_SCOPE) g->scope_at[g->n_scopes] = g->scope.n;
  g->n_scopes++; /* deeper ones are counted, not named */
  if (g->n_scopes > SN_MAX_SCOPE) return;
  if (g->scope.n) sn_str_char(&g->scope, '/');
  sn_str_add(&g->scope, name ? name : "");
  g->scope_text = NULL;
  if (g->scope.failed) sn_graph_no_memory(g);
}

void sn_scope_pop(sn_graph *g) {
  if (!g || !g->n_scopes) return;
  g->n_scopes--;
  if (g->n_scopes >= SN_MAX_SCOPE) return;
  g->scope.n = g->scope_at[g->n_scopes];
  if (g->scope.data) g->scope.data[g->scope.n] = 0;
  g->scope_text = NULL;
}

void sn_graph_pin(sn_graph *g, sn_loc at) {
  if (!g) return;
  if (!g->n_pins++) g->pinned = at;
}

void sn_graph_unpin(sn_graph *g) {
  if (g && g->n_pins) g->n_pins--;
}

/* ---- parameters and outputs ---------------------------------------------------------------------------------------
 */

/* Room for one more element; false and sticky when memory lacks. */
static bool grow(sn_graph *g, void **list, int n, int *cap, size_t each) {
  if (n < *cap) return true;
  int more = *cap ? 2 * *cap : 32;
  void *p = sn_realloc(*list, (size_t)more * each);
  if (!p) {
    sn_graph_no_memory(g);
    return false;
  }
  *list = p;
  *cap = more;
  return true;
}

/* HLO names are [A-Za-z_][A-Za-z0-9_.-]*. */
static char *hlo_name(sn_arena *a, const char *name) {
  size_t n = strlen(name);
  char *s = sn_arena_alloc(a, n + 2);
  if (!s) return NULL;
  char *to = s;
  if (!n || (name[0] >= '0' && name[0] <= '9') || name[0] == '.' || name[0] == '-') *to++ = '_';
  for (size_t i = 0; i < n; i++) {
    char c = name[i];
    bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    *to++ = fine ? c : '_';
  }
  *to = 0;
  return s;
}

sn_tensor sn_parameter_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, const char *name) {
  sn_builder *b = sn_graph_open(g, at);
  if (!b) return sn_graph_empty(g);
  if (g->depth) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "parameter '%s' made inside a body", name ? name : "");
    sn_graph_hint(g, "parameters belong to the module; make them before the loop or branch");
    return sn_graph_empty(g);
  }
  int number = sn_graph_n_parameters(g);
  const sn_shape *s = sn_shape_array(b->c->module->arena, t, rank, dims);
  char fallback[32];
  snprintf(fallback, sizeof fallback, "arg%d", number);
  char *kept = sn_arena_string(g->module->arena, name ? name : fallback),
       *text = hlo_name(g->arena, name ? name : fallback);
  void *names = (void *)g->param_names;
  bool room = grow(g, &names, number, &g->cap_param_names, sizeof *g->param_names);
  g->param_names = names;
  if (!s || !kept || !text || !room) {
    sn_graph_no_memory(g);
    return sn_graph_empty(g);
  }
  if ((b->status = sn_shape_check(g->diag, b->loc, s)) != SN_OK) return sn_graph_empty(g);
  b->metadata = metadata(g, b->loc, kept);
  g->param_names[number] = kept;
  return sn_graph_tensor(g, sn_build_parameter(b, number, s, text));
}

int sn_output_at(sn_loc at, sn_graph *g, sn_tensor x, const char *name) {
  sn_builder *b = sn_graph_open(g, at);
  if (!b) return -1;
  if (g->depth) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "output '%s' declared inside a body", name ? name : "");
    return -1;
  }
  if (!x.instr) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "output '%s' is an empty tensor", name ? name : "");
    return -1;
  }
  sn_instr *i = sn_graph_use(g, at, x);
  void *list = g->outputs;
  bool room = i && grow(g, &list, g->n_outputs, &g->cap_outputs, sizeof *g->outputs);
  g->outputs = list;
  if (!room) return -1;
  g->outputs[g->n_outputs].instr = i;
  g->outputs[g->n_outputs].name = sn_arena_string(g->arena, name);
  return g->n_outputs++;
}

int sn_output_aliased_at(sn_loc at, sn_graph *g, sn_tensor x, const char *name, sn_tensor parameter) {
  int index = sn_output_at(at, g, x, name);
  if (index < 0) return -1;
  sn_instr *p = sn_graph_use(g, at, parameter);
  if (!p) return -1;
  if (p->op != SN_OP_PARAMETER) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "output '%s' is to take over the buffer of %s, which is no parameter",
                  name ? name : "", p->name);
    return -1;
  }
  if (!sn_shape_equal(p->shape, x.instr->shape, 0)) {
    sn_graph_fail(g, at, SN_ERR_SHAPE, "output '%s' is %s, the parameter '%s' whose buffer it is to take over is %s",
                  name ? name : "", sn_tensor_text(x), p->name, sn_tensor_text(parameter));
    return -1;
  }
  void *list = g->aliases;
  bool room = grow(g, &list, g->n_aliases, &g->cap_aliases, sizeof *g->aliases);
  g->aliases = list;
  int64_t *at_index = sn_arena_copy(g->module->arena, &(int64_t){index}, sizeof(int64_t));
  if (!room || !at_index) {
    sn_graph_no_memory(g);
    return -1;
  }
  g->aliases[g->n_aliases++] =
      (sn_alias){.output_index = {1, at_index}, .operand = sn_instr_int(p, SN_ATTR_PARAMETER_NUMBER)};
  return index;
}

/* ---- the end ---- */

/* stop_gradient has done its work once all derivatives are taken. */
static bool is_stop(const sn_instr *i) { return i->op == SN_OP_COPY && sn_instr_frontend(i, "sinter.stop_gradient"); }

static void sweep(sn_computation *c) {
  SN_FOR_INSTRS_SAFE(k, c) {
    if (is_stop(k)) sn_instr_replace_uses(k, sn_instr_operand(k, 0));
  }
  for (sn_instr *i = c->last, *prev; i; i = prev) {
    prev = i->prev;
    if (!i->n_uses && i->op != SN_OP_PARAMETER && !sn_instr_is_root(i) && !sn_instr_has_effect(i)) sn_instr_erase(i);
  }
}

static void set_aliases(sn_graph *g) {
  if (!g->n_aliases) return;
  sn_alias *list = sn_arena_copy(g->module->arena, g->aliases, (size_t)g->n_aliases * sizeof *list);
  if (!list) {
    sn_graph_no_memory(g);
    return;
  }
  g->module->n_aliases = g->n_aliases;
  g->module->aliases = list;
}

static void finish_module(sn_graph *g) {
  sn_builder *b = &g->b;
  sn_instr **roots = SN_NEW_N(g->arena, sn_instr *, g->n_outputs + 1);
  if (!roots) {
    sn_graph_no_memory(g);
    return;
  }
  for (int k = 0; k < g->n_outputs; k++) roots[k] = g->outputs[k].instr;
  b->metadata = NULL;
  b->loc = SN_NOWHERE;
  sn_instr *root = sn_build_tuple(b, (uint32_t)g->n_outputs, roots);
  if (b->status != SN_OK) return;
  sn_computation_set_root(b->c, root);
  SN_FOR_COMPUTATIONS(c, g->module) sweep(c);
  sn_module_drop_dead_computations(g->module);
  set_aliases(g);
  if (b->status == SN_OK) b->status = sn_module_sort(g->diag, g->module);
  if (b->status == SN_OK) b->status = sn_module_verify(g->diag, g->module, 0);
}

static void hand_over(const sn_diag *from, sn_diag *to) {
  for (size_t k = 0; k < sn_diag_stored(from); k++) {
    const sn_diagnostic *e = sn_diag_get(from, k);
    if (e->severity == SN_ERROR)
      (void)sn_error(to, e->loc, e->status, "%s", e->message);
    else if (e->severity == SN_WARNING)
      sn_warn(to, e->loc, "%s", e->message);
    else
      sn_note(to, e->loc, "%s", e->message);
    if (e->hint) sn_hint(to, "%s", e->hint);
  }
}

sn_status sn_graph_finish(sn_graph *g, sn_diag *d, sn_module **out) {
  *out = NULL;
  if (!g->finished && g->b.status == SN_OK && !g->n_outputs) {
    sn_graph_fail(g, SN_NOWHERE, SN_ERR_USAGE, "the graph '%s' has no output", g->module->name);
    sn_graph_hint(g, "declare one with sn_output");
  }
  if (g->finished) sn_graph_fail(g, SN_NOWHERE, SN_ERR_USAGE, "the graph was finished before");
  if (g->b.status == SN_OK) finish_module(g);
  g->finished = true;
  if (d) hand_over(g->diag, d);
  if (g->b.status != SN_OK) return g->b.status;
  *out = g->module;
  g->module = NULL;
  return SN_OK;
}

/* ---- looking at tensors ---- */

const sn_shape *sn_tensor_shape(sn_tensor x) { return x.instr ? x.instr->shape : NULL; }
sn_type sn_tensor_type(sn_tensor x) { return x.instr ? x.instr->shape->type : SN_TYPE_INVALID; }
int sn_tensor_rank(sn_tensor x) { return x.instr ? x.instr->shape->rank : 0; }
const int64_t *sn_tensor_dims(sn_tensor x) { return x.instr ? x.instr->shape->dims : NULL; }
int64_t sn_tensor_elements(sn_tensor x) { return x.instr ? sn_shape_elements(x.instr->shape) : 0; }

int64_t sn_tensor_dim(sn_tensor x, int axis) {
  int rank = sn_tensor_rank(x);
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? x.instr->shape->dims[axis] : 0;
}

const char *sn_graph_shape_text(sn_graph *g, const sn_shape *s) {
  const char *text = s ? sn_shape_text(g->arena, s) : "an empty tensor";
  return text ? text : "?";
}

const char *sn_tensor_text(sn_tensor x) {
  return x.graph ? sn_graph_shape_text(x.graph, sn_tensor_shape(x)) : "an empty tensor";
}
