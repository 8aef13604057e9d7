/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The IR section: blocks, ops, regions. Values are numbered as they are defined; a region takes a range of numbers on top of those around it, an isolated
 * one begins anew. An operand must be defined above its use: blocks do not branch here, so that is all that can be right. */
#include <inttypes.h>
#include <string.h>

#include "bytecode.h"

enum { HAS_ATTRS = 1, HAS_RESULTS = 2, HAS_OPERANDS = 4, HAS_SUCCESSORS = 8, HAS_REGIONS = 16, HAS_USE_ORDERS = 32, HAS_PROPERTIES = 64 };

/* Memory that a file may take: a part that any file may have, and a part for each of its bytes. */
enum { FREE_BYTES = 64 << 20, BYTES_A_BYTE = 1024 };

/* Numbers of a region that are not given out yet. */
typedef struct numbers {
  uint64_t next, end;
} numbers;

static sn_status op(sn_bc *b, sn_bc_cursor *c, sn_mlir_block *to, numbers *n);

/* ---- values ---- */

static sn_status define(sn_bc *b, const sn_bc_cursor *c, numbers *n, sn_mlir_value *v) {
  if (n->next == n->end) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected no more values than the region states, found one more");
  b->values[n->next++] = v;
  return SN_OK;
}

static sn_status reserve(sn_bc *b, uint64_t n) {
  if (b->n_values + n > b->cap_values) {
    uint64_t cap = (b->n_values + n) * 2 + 64;
    sn_mlir_value **v = sn_realloc(b->values, (size_t)cap * sizeof *v);
    if (v == NULL) return sn_bc_memory(b);
    b->values = v;
    b->cap_values = cap;
  }
  if (n != 0) memset(b->values + b->n_values, 0, (size_t)n * sizeof *b->values);
  b->n_values += n;
  return SN_OK;
}

static sn_status operands(sn_bc *b, sn_bc_cursor *c, uint32_t *n, sn_mlir_value ***out) {
  uint64_t count = 0;
  SN_TRY(sn_bc_count(b, c, "a number of operands", &count));
  sn_mlir_value **v = SN_NEW_N(b->m->arena, sn_mlir_value *, count + 1);
  if (v == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t k = 0;
    SN_TRY(sn_bc_index(b, c, "an operand's number", b->n_values - b->floor, &k));
    v[i] = b->values[b->floor + k];
    if (v[i] == NULL) return sn_bc_fail(b, c, SN_ERR_NAME, "the value numbered %" PRIu64 " is used above its definition", k);
  }
  *n = (uint32_t)count;
  *out = v;
  return SN_OK;
}

/* The order of a value's uses, which says nothing about the program. */
static sn_status use_orders(sn_bc *b, sn_bc_cursor *c, uint64_t n_values) {
  uint64_t n = 1, v = 0;
  if (n_values > 1) SN_TRY(sn_bc_count(b, c, "a number of values", &n));
  for (uint64_t i = 0; i < n; i++) {
    uint64_t indices = 0;
    if (n_values > 1) SN_TRY(sn_bc_index(b, c, "a value", n_values, &v));
    SN_TRY(sn_bc_uint(b, c, "a number of uses", &indices));
    for (indices >>= 1; indices > 0; indices--) SN_TRY(sn_bc_uint(b, c, "a use", &v));
  }
  return SN_OK;
}

/* ---- blocks and regions ---- */

static sn_status block_args(sn_bc *b, sn_bc_cursor *c, uint64_t *n, const sn_mlir_type ***out) {
  SN_TRY(sn_bc_count(b, c, "a number of arguments", n));
  const sn_mlir_type **types = SN_NEW_N(b->m->arena, const sn_mlir_type *, *n + 1);
  if (types == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < *n; i++) {
    uint64_t v = 0, unused = 0;
    SN_TRY(sn_bc_uint(b, c, "an argument's type", &v));
    bool has_location = b->version < 4 || (v & 1) != 0;
    SN_TRY(sn_bc_type_at(b, c, b->version < 4 ? v : v >> 1, &types[i]));
    if (has_location) SN_TRY(sn_bc_index(b, c, "a location", b->n_attrs, &unused));
  }
  *out = types;
  return SN_OK;
}

static sn_status block_ops(sn_bc *b, sn_bc_cursor *c, sn_mlir_block *to, uint64_t n_ops, numbers *n) {
  if (n_ops > sn_bc_left(c)) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected at most %zu ops, as many as bytes are left, found %" PRIu64, sn_bc_left(c), n_ops);
  for (uint64_t i = 0; i < n_ops; i++) SN_TRY(op(b, c, to, n));
  return SN_OK;
}

static sn_status use_orders_of_args(sn_bc *b, sn_bc_cursor *c, uint64_t n) {
  uint8_t has = 0;
  if (b->version < 3) return SN_OK;
  SN_TRY(sn_bc_byte(b, c, "whether use orders follow", &has));
  return has != 0 ? use_orders(b, c, n) : SN_OK;
}

static sn_status block(sn_bc *b, sn_bc_cursor *c, sn_mlir_region *to, numbers *n) {
  uint64_t head = 0, n_args = 0;
  const sn_mlir_type **types = NULL;
  SN_TRY(sn_bc_uint(b, c, "a number of ops", &head));
  if ((head & 1) != 0) SN_TRY(block_args(b, c, &n_args, &types));
  sn_mlir_block *made = sn_mlir_block_new(b->m, to, (uint32_t)n_args, types);
  if (made == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < n_args; i++) SN_TRY(define(b, c, n, &made->args[i]));
  if ((head & 1) != 0) SN_TRY(use_orders_of_args(b, c, n_args));
  return block_ops(b, c, made, head >> 1, n);
}

/* The module's block is the tree's top; others are added to the region. */
static sn_status region_blocks(sn_bc *b, sn_bc_cursor *c, sn_mlir_region *to, uint64_t n_blocks) {
  uint64_t n_values = 0, head = 0;
  SN_TRY(sn_bc_count(b, c, "a number of values", &n_values));
  numbers n = {b->n_values, b->n_values + n_values};
  SN_TRY(reserve(b, n_values));
  if (to == NULL) {
    SN_TRY(sn_bc_uint(b, c, "a number of ops", &head));
    if (n_blocks != 1 || (head & 1) != 0) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a module of one block without arguments");
    SN_TRY(block_ops(b, c, &b->m->top, head >> 1, &n));
  } else {
    for (uint64_t i = 0; i < n_blocks; i++) SN_TRY(block(b, c, to, &n));
  }
  if (n.next != n.end) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %" PRIu64 " values in a region, found %" PRIu64 " fewer", n_values, n.end - n.next);
  b->n_values -= n_values;
  return SN_OK;
}

static sn_status region(sn_bc *b, sn_bc_cursor *c, sn_mlir_region *to) {
  uint64_t n_blocks = 0;
  SN_TRY(sn_bc_count(b, c, "a number of blocks", &n_blocks));
  return n_blocks != 0 ? region_blocks(b, c, to, n_blocks) : SN_OK;
}

static sn_status regions_at(sn_bc *b, sn_bc_cursor *c, sn_mlir_op *of, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) SN_TRY(region(b, c, of != NULL ? &of->regions[i] : NULL));
  return SN_OK;
}

/* In a section of their own from version 2 on; numbered anew. */
static sn_status isolated_regions(sn_bc *b, sn_bc_cursor *c, sn_mlir_op *of, uint64_t n) {
  uint64_t floor = b->floor;
  b->floor = b->n_values;
  if (b->version >= 2) {
    uint8_t id = 0;
    sn_bc_cursor data;
    SN_TRY(sn_bc_section(b, c, &id, &data));
    if (id != 4) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected the section IR of an isolated op, found section %d", id);
    SN_TRY(regions_at(b, &data, of, n));
    if (data.at != data.end) return sn_bc_fail(b, &data, SN_ERR_SYNTAX, "expected the end of the section, found %zu more bytes", sn_bc_left(&data));
  } else {
    SN_TRY(regions_at(b, c, of, n));
  }
  b->floor = floor;
  return SN_OK;
}

static sn_status regions(sn_bc *b, sn_bc_cursor *c, sn_mlir_op *of, uint64_t n, bool isolated) {
  if (b->depth == SN_MLIR_MAX_NEST) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "more than %d levels of nesting", SN_MLIR_MAX_NEST);
  b->depth++;
  SN_TRY(isolated ? isolated_regions(b, c, of, n) : regions_at(b, c, of, n));
  b->depth--;
  return SN_OK;
}

/* ---- ops ---- */

/* What an op is made of, up to its regions. */
typedef struct head {
  const sn_bc_op_name *name;
  const sn_mlir_debug *debug;
  uint32_t n_attrs, n_results, n_operands;
  const sn_mlir_named *attrs;
  const sn_mlir_type *const *results;
  sn_mlir_value **operands;
  uint64_t n_regions;
  bool isolated;
} head;

static sn_status attributes(sn_bc *b, sn_bc_cursor *c, uint8_t mask, head *h) {
  const sn_mlir_attr *dictionary = NULL;
  const sn_bc_props *props = NULL;
  uint64_t k = 0;
  if ((mask & HAS_ATTRS) != 0) SN_TRY(sn_bc_attr(b, c, "a dictionary", &dictionary));
  if ((mask & HAS_PROPERTIES) != 0) {
    if (b->version < 5) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected no properties before version 5");
    if (h->name->registered) {
      SN_TRY(sn_bc_index(b, c, "properties", b->n_props, &k));
      props = &b->props[k];
    } else {
      const sn_mlir_attr *whole = NULL;
      SN_TRY(sn_bc_attr(b, c, "properties", &whole));
      if (dictionary == NULL) dictionary = whole;
      else return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "%s has properties that are not known here", h->name->full);
    }
  }
  return sn_bc_op_attrs(b, c, h->name, props, dictionary, &h->n_attrs, &h->attrs);
}

static sn_status op_head(sn_bc *b, sn_bc_cursor *c, head *h) {
  uint64_t k = 0, location = 0;
  uint8_t mask = 0;
  SN_TRY(sn_bc_index(b, c, "an op's name", b->n_op_names, &k));
  h->name = &b->op_names[k];
  SN_TRY(sn_bc_byte(b, c, "what an op has", &mask));
  if ((mask & 0x80) != 0) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected what an op has, found 0x%02x", mask);
  SN_TRY(sn_bc_index(b, c, "a location", b->n_attrs, &location));
  SN_TRY(sn_bc_debug(b, location, &h->debug));
  SN_TRY(attributes(b, c, mask, h));
  if ((mask & HAS_RESULTS) != 0) SN_TRY(sn_bc_types(b, c, "a result's type", &h->n_results, &h->results));
  if ((mask & HAS_OPERANDS) != 0) SN_TRY(operands(b, c, &h->n_operands, &h->operands));
  if ((mask & HAS_SUCCESSORS) != 0) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "%s has successors: branches between blocks are not supported", h->name->full);
  if ((mask & HAS_USE_ORDERS) != 0) SN_TRY(use_orders(b, c, h->n_results));
  if ((mask & HAS_REGIONS) == 0) return SN_OK;
  SN_TRY(sn_bc_uint(b, c, "a number of regions", &h->n_regions));
  h->isolated = (h->n_regions & 1) != 0;
  h->n_regions >>= 1;
  if (h->n_regions > sn_bc_left(c)) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected at most %zu regions, found %" PRIu64, sn_bc_left(c), h->n_regions);
  return SN_OK;
}

/* A cast between VHLO's types and builtin's, which are the same here. */
static bool is_cast(const head *h) {
  return h->n_operands == 1 && h->n_results == 1 && h->n_regions == 0 && strcmp(h->name->name, "builtin.unrealized_conversion_cast") == 0 &&
         sn_mlir_type_equal(h->operands[0]->type, h->results[0]);
}

/* VHLO has one return for functions and regions. */
static const char *name_in(const head *h, const sn_mlir_block *to) {
  bool in_function = to->region != NULL && strcmp(to->region->op->name, "func.func") == 0;
  return in_function && strcmp(h->name->full, "vhlo.return_v1") == 0 ? "func.return" : h->name->name;
}

static sn_status module(sn_bc *b, sn_bc_cursor *c, const sn_mlir_block *to, const head *h) {
  if (to != &b->m->top || b->depth != 0 || b->m->top.first != NULL) {
    sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "a module within a module is not supported");
    sn_hint(b->d, "put each into a file of its own");
    return SN_ERR_UNSUPPORTED;
  }
  if (h->n_regions != 1 || h->n_results != 0 || h->n_operands != 0) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a module of one region, without operands and results");
  b->m->attrs = h->attrs;
  b->m->n_attrs = h->n_attrs;
  for (uint32_t i = 0; i < h->n_attrs; i++)
    if (strcmp(h->attrs[i].name, "sym_name") == 0 && h->attrs[i].attr->kind == SN_MA_STRING) b->m->name = h->attrs[i].attr->s;
  return regions(b, c, NULL, 1, h->isolated);
}

static sn_status check_memory(sn_bc *b, const sn_bc_cursor *c) {
  size_t bytes = sn_arena_bytes(b->m->arena);
  if (bytes <= FREE_BYTES || (bytes - FREE_BYTES) / BYTES_A_BYTE <= b->n_bytes) return SN_OK;
  return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "the program takes %zu MB of memory, more than its %zu bytes can mean", bytes >> 20, b->n_bytes);
}

static sn_status op(sn_bc *b, sn_bc_cursor *c, sn_mlir_block *to, numbers *n) {
  head h = {0};
  SN_TRY(op_head(b, c, &h));
  SN_TRY(check_memory(b, c));
  if (strcmp(h.name->name, "builtin.module") == 0) return module(b, c, to, &h);
  if (is_cast(&h)) return define(b, c, n, h.operands[0]);
  sn_mlir_op *made = sn_mlir_op_new(b->m, to, name_in(&h, to), h.n_results, h.results, (uint32_t)h.n_regions);
  if (made == NULL) return sn_bc_memory(b);
  made->operands = h.operands;
  made->n_operands = h.n_operands;
  made->attrs = h.attrs;
  made->n_attrs = h.n_attrs;
  made->debug = h.debug;
  made->loc = h.debug != NULL && h.debug->file != NULL ? (sn_loc){h.debug->file, h.debug->line, h.debug->col} : (sn_loc){b->file, 0, 0};
  if (h.n_regions != 0) SN_TRY(regions(b, c, made, h.n_regions, h.isolated));
  for (uint32_t i = 0; i < h.n_results; i++) SN_TRY(define(b, c, n, &made->results[i]));
  return SN_OK;
}

/* ---- the doors ---- */

sn_status sn_bc_ir(sn_bc *b) {
  sn_bc_cursor c = b->sections[4];
  numbers none = {0, 0};
  uint64_t head_of_block = 0;
  SN_TRY(sn_bc_uint(b, &c, "a number of ops", &head_of_block));
  if ((head_of_block & 1) != 0) return sn_bc_fail(b, &c, SN_ERR_SYNTAX, "expected a block without arguments at the top");
  SN_TRY(block_ops(b, &c, &b->m->top, head_of_block >> 1, &none));
  if (c.at != c.end) return sn_bc_fail(b, &c, SN_ERR_SYNTAX, "expected the end of the section, found %zu more bytes", sn_bc_left(&c));
  return SN_OK;
}
