/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A step of a product on tensor cores: fragments of both operands from shared memory, then mma.sync. Which lane holds what of a fragment, NVIDIA's "PTX ISA" says (mma.m16n8k8 of
 * tf32, mma.m16n8k16 of 16-bit elements).
 *
 * ldmatrix brings four matrices of 8 rows x 16 bytes at once: of lhs 16 rows by two chunks of terms, of rhs 16 columns by two chunks. Elements of 16 bits it also turns, where
 * neighbours in memory are rows or columns and not terms; tf32 that lies so is read value by value. */
#include "emit.h"

int gpu_tensor_terms(const sn_kernel *k, const sn_kcontract *c) {
  sn_type a = k->buffers[c->a.buffer].type, b = k->buffers[c->b.buffer].type;
  if (a != b) return 0;
  if (c->algorithm == SN_DOT_ALGORITHM_TF32_TF32_F32 && a == SN_TYPE_F32) return GPU_TF32_TERMS;
  if (c->algorithm == SN_DOT_ALGORITHM_BF16_BF16_F32 && a == SN_TYPE_BF16) return GPU_HALF_TERMS;
  return c->algorithm == SN_DOT_ALGORITHM_F16_F16_F32 && a == SN_TYPE_F16 ? GPU_HALF_TERMS : 0;
}

/* Do all rows of 16 bytes begin on 16 bytes? */
static bool has_chunks(const gpu_emit *e, const sn_ktile *t, int64_t step) {
  const sn_kbuffer *b = &e->k->buffers[t->buffer];
  int64_t chunk = 16 / (int64_t)sn_type_bytes(b->type), row = 1;
  if (e->buffers[t->buffer].home != HOME_SHARED || b->strides || step % chunk) return false;
  for (int k = b->rank - 1; k >= 0; row *= b->dims[k--]) {
    if (row % chunk && (t->at[k]->kind != SN_IX_CONST || t->at[k]->value * row % chunk)) return false;
  }
  return true;
}

/* For each of n groups: the fragments of 16 rows of lhs (rhs: columns), `terms` a matrix's. */
static void load_matrices(gpu_emit *e, const sn_ktile *t, bool lhs, bool across, int n, int terms) {
  const char *outer, *term, *group = lhs ? "row + 16 * r" : "column + 16 * r";
  outer = across ? gpu_text(e, "%s + x / %d %% 2 * 8", group, lhs ? 8 : 16) : gpu_text(e, "%s + x / %d %% 2 * 8 + x %% 8", group, lhs ? 8 : 16);
  term = across ? gpu_text(e, "k + x / %d %% 2 * 8 + x %% 8", lhs ? 16 : 8) : gpu_text(e, "k + x / %d %% 2 * %d", lhs ? 16 : 8, terms);
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "  for (int r = 0; r < %d; r++) sn_load_matrices%s(%s + 4 * r, &%s);", n, across ? "_across" : "", lhs ? "a" : "b", lhs ? gpu_tile_at(e, t, outer, term) : gpu_tile_at(e, t, term, outer));
}

/* Registers first … n - 1 of them. */
static void load_values(gpu_emit *e, const sn_ktile *t, bool lhs, int first, int n) {
  const char *element = lhs ? gpu_tile_at(e, t, "row + 16 * (r / 4) + x / 4 + r % 2 * 8", "k + x % 4 + r / 2 % 2 * 4") : gpu_tile_at(e, t, "k + x % 4 + r % 2 * 4", "column + 8 * (r / 2) + x / 4");
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "  for (int r = %d; r < %d; r++) %s[r] = __float_as_uint(%s);", first, n, lhs ? "a" : "b", element);
}

/* n registers of lhs or rhs; f32 that nobody has rounded yet is rounded here. */
static bool load(gpu_emit *e, const sn_ktile *t, bool exact, bool lhs, int n, int mma) {
  int64_t along = t->stride[lhs], other = t->stride[!lhs];
  bool half = mma == GPU_HALF_TERMS;
  if (along == 1 && has_chunks(e, t, other)) load_matrices(e, t, lhs, false, n / 4, mma / 2);
  else if (half && other == 1 && has_chunks(e, t, along)) load_matrices(e, t, lhs, true, n / 4, mma / 2);
  else if (!half) load_values(e, t, lhs, 0, n);
  else return false;
  if (half && n % 4) return false;
  if (!half && n % 4 && along == 1 && has_chunks(e, t, other)) load_values(e, t, lhs, n / 4 * 4, n); /* an odd number of columns of 8 */
  if (half || exact || e->buffers[t->buffer].operand) return true;
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "  for (int r = 0; r < %d; r++) %s[r] = sn_tf32(%s[r]);", n, lhs ? "a" : "b", lhs ? "a" : "b");
  return true;
}

void gpu_tensor_step(gpu_emit *e, const sn_kcontract *c, const char *sums) {
  int rows = c->mr / 32, columns = c->nr / 32, mma = gpu_tensor_terms(e->k, c); /* tiles of 16 x 8 of a warp */
  const char *type = mma == GPU_TF32_TERMS ? "tf32" : e->k->buffers[c->a.buffer].type == SN_TYPE_F16 ? "f16" : "bf16";
  gpu_line(e, "const int row = lane / 128 * %d, column = lane / 32 %% 4 * %d, x = lane %% 32;", c->mr / 2, c->nr / 4);
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "for (int k = 0; k < %lld; k += %d) {", (long long)c->k->value, mma);
  gpu_line(e, "  unsigned a[%d], b[%d];", 4 * rows, 2 * columns);
  if (!load(e, &c->a, c->exact, true, 4 * rows, mma) || !load(e, &c->b, c->exact, false, 2 * columns, mma)) {
    gpu_fail(e, SN_ERR_UNSUPPORTED, "operands of 16 bits lie neither along terms nor across them in rows of 16 bytes in shared memory, as tensor cores read them");
  }
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "  for (int r = 0; r < %d; r++)", rows);
  gpu_line(e, "#pragma unroll");
  gpu_line(e, "    for (int s = 0; s < %d; s++) sn_mma_%s(%s + (r * %d + s) * 4, a + 4 * r, b + 2 * s);", columns, type, sums, columns);
  gpu_line(e, "}");
}
