/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_array.h"

#include <string.h>

static sn_arena *arena;
static void setup(void) { ck_assert_int_eq(sn_arena_create(&arena), SN_OK); }
static void teardown(void) { sn_arena_destroy(arena); }

static void check_text(const sn_shape *s, int flags, const char *want) {
  sn_str text = {0};
  sn_shape_print(&text, s, flags);
  ck_assert_str_eq(text.data, want);
  sn_str_finish(&text);
}

static const sn_shape *f32(int rank, const int64_t *dims) { return sn_shape_array(arena, SN_TYPE_F32, rank, dims); }
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

START_TEST(type_names) {
  for (int t = 0; t < SN_TYPE_COUNT; t++) {
    sn_type found;
    ck_assert(sn_type_from_text(sn_types[t].text, strlen(sn_types[t].text), &found));
    ck_assert_int_eq(found, t);
  }
  sn_type t;
  ck_assert(!sn_type_from_text("f3", 2, &t) && t == SN_TYPE_INVALID);
  ck_assert(!sn_type_from_text("f320", 4, &t));
  ck_assert(!sn_type_from_text("", 0, &t));
  ck_assert(sn_type_from_text("f32[2]", 3, &t) && t == SN_TYPE_F32);
  ck_assert_str_eq(sn_type_text(SN_TYPE_INVALID), "invalid");
  ck_assert_int_eq(sn_type_complex_of(SN_TYPE_F16), SN_TYPE_INVALID);
  ck_assert_int_eq(sn_type_real_part(SN_TYPE_C128), SN_TYPE_F64);
}
END_TEST

START_TEST(printing) {
  const bool marks[] = {false, true, true};
  check_text(sn_shape_scalar(arena, SN_TYPE_S32), SN_SHAPE_LAYOUT, "s32[]");
  check_text(sn_shape_token(arena), SN_SHAPE_LAYOUT, "token[]");
  check_text(f32(2, DIMS(2, 3)), SN_SHAPE_LAYOUT, "f32[2,3]");
  check_text(sn_shape_default_layout(arena, f32(2, DIMS(2, 3))), SN_SHAPE_LAYOUT, "f32[2,3]{1,0}");
  check_text(sn_shape_default_layout(arena, f32(2, DIMS(2, 3))), 0, "f32[2,3]");
  check_text(sn_shape_default_layout(arena, f32(0, NULL)), SN_SHAPE_LAYOUT, "f32[]");
  check_text(sn_shape_dynamic(arena, SN_TYPE_F32, 3, DIMS(2, 3, SN_DIM_UNBOUNDED), marks), 0, "f32[2,<=3,?]");
  const sn_shape *e = f32(1, DIMS(1));
  const sn_shape *elements[] = {e, e, e, e, e, e};
  check_text(sn_shape_tuple(arena, 6, elements), SN_SHAPE_INDEX_COMMENTS,
             "(f32[1], f32[1], f32[1], f32[1], f32[1], /*index=5*/f32[1])");
  check_text(sn_shape_tuple(arena, 0, NULL), 0, "()");
  sn_shape buffer = *e;
  buffer.buffer = true;
  check_text(&buffer, 0, "b(f32[1])");
  ck_assert_str_eq(sn_shape_text(arena, e), "f32[1]");
}
END_TEST

static const sn_layout *tiled(int rank) {
  static const int64_t first[] = {8, 128}, second[] = {SN_TILE_COMBINE, 1};
  static const sn_tile tiles[] = {{2, first}, {2, second}};
  sn_layout_extra *extra = SN_NEW(arena, sn_layout_extra);
  *extra = (sn_layout_extra){.n_tiles = 2, .tiles = tiles, .tail_padding = 16,
                             .index_type = SN_TYPE_U32, .pointer_type = SN_TYPE_U16, .element_bits = 4,
                             .memory_space = 1, .dynamic_prefix = 8, .dim_levels = "D,C", .split_configs = "0:4",
                             .physical = f32(1, DIMS(4))};
  sn_layout *l = SN_NEW(arena, sn_layout);
  *l = *sn_layout_make(arena, rank, NULL);
  l->extra = extra;
  return l;
}

START_TEST(printing_extra) {
  const sn_shape *s = sn_shape_with_layout(arena, f32(2, DIMS(2, 3)), tiled(2));
  const char *want = "f32[2,3]{1,0:D(D,C)T(8,128)(*,1)L(16)#(u32)*(u16)E(4)S(1)SC(0:4)P(f32[4])M(8)}";
  check_text(s, SN_SHAPE_LAYOUT, want);
  const sn_shape *clone = sn_shape_clone(arena, s);
  check_text(clone, SN_SHAPE_LAYOUT, want);
  ck_assert(sn_shape_equal(s, clone, SN_EQ_LAYOUT));
  ck_assert(!sn_layout_is_default(s->layout));
  ck_assert(!sn_shape_equal(s, f32(2, DIMS(2, 3)), SN_EQ_LAYOUT));
  ck_assert(sn_shape_equal(s, f32(2, DIMS(2, 3)), SN_EQ_LAYOUT | SN_EQ_MINOR_TO_MAJOR_ONLY));
  ck_assert(sn_shape_equal(s, f32(2, DIMS(2, 3)), 0));
  check_text(sn_shape_with_type(arena, s, SN_TYPE_S8), SN_SHAPE_LAYOUT, "s8[2,3]{1,0}");
}
END_TEST

START_TEST(equality_and_hash) {
  const bool marks[] = {true, false};
  const sn_shape *a = f32(2, DIMS(2, 3)), *b = f32(2, DIMS(2, 3)), *c = f32(2, DIMS(3, 2));
  const sn_shape *d = sn_shape_dynamic(arena, SN_TYPE_F32, 2, DIMS(2, 3), marks);
  const sn_shape *h = sn_shape_array(arena, SN_TYPE_F16, 2, DIMS(2, 3));
  const sn_shape *t1 = sn_shape_tuple(arena, 2, (const sn_shape *const[]){a, c});
  const sn_shape *t2 = sn_shape_tuple(arena, 2, (const sn_shape *const[]){b, c});
  ck_assert(sn_shape_equal(a, b, SN_EQ_LAYOUT) && sn_shape_equal(t1, t2, 0));
  ck_assert(!sn_shape_equal(a, c, 0) && !sn_shape_equal(a, h, 0) && !sn_shape_equal(a, d, 0) && !sn_shape_equal(a, t1, 0));
  ck_assert(sn_shape_equal(a, h, SN_EQ_IGNORE_TYPE) && sn_shape_equal(a, d, SN_EQ_IGNORE_DYNAMIC));
  ck_assert(sn_shape_equal(a, sn_shape_default_layout(arena, b), SN_EQ_LAYOUT));
  const sn_shape *columns = sn_shape_with_layout(arena, a, sn_layout_make(arena, 2, DIMS(0, 1)));
  ck_assert(!sn_shape_equal(a, columns, SN_EQ_LAYOUT) && sn_shape_equal(a, columns, 0));
  ck_assert_uint_eq(sn_shape_hash(a, 7), sn_shape_hash(columns, 7));
  ck_assert_uint_eq(sn_shape_hash(t1, 7), sn_shape_hash(t2, 7));
  ck_assert(sn_shape_hash(a, 7) != sn_shape_hash(c, 7) && sn_shape_hash(a, 7) != sn_shape_hash(d, 7));
  ck_assert(sn_shape_is_static(t1) && !sn_shape_is_static(d));
}
END_TEST

START_TEST(sizes_and_strides) {
  int64_t strides[3];
  const sn_shape *s = f32(3, DIMS(2, 3, 4));
  ck_assert_int_eq(sn_shape_elements(s), 24);
  ck_assert_int_eq(sn_shape_bytes(s), 96);
  ck_assert_int_eq(sn_shape_elements(f32(0, NULL)), 1);
  ck_assert_int_eq(sn_shape_elements(f32(2, DIMS(0, 5))), 0);
  ck_assert_int_eq(sn_shape_elements(sn_shape_token(arena)), 0);
  sn_shape_strides(s, strides);
  ck_assert(strides[0] == 12 && strides[1] == 4 && strides[2] == 1);
  s = sn_shape_with_layout(arena, s, sn_layout_make(arena, 3, DIMS(1, 0, 2)));
  sn_shape_physical_strides(s, strides);
  ck_assert(strides[0] == 3 && strides[1] == 1 && strides[2] == 6);
  const sn_shape *inner = sn_shape_tuple(arena, 2, (const sn_shape *const[]){s, sn_shape_token(arena)});
  const sn_shape *outer = sn_shape_tuple(arena, 2, (const sn_shape *const[]){inner, f32(1, DIMS(5))});
  ck_assert_int_eq(sn_shape_bytes(outer), 96 + 20);
  ck_assert_int_eq(sn_shape_leaves(outer), 3);
  ck_assert_ptr_eq(sn_shape_leaf(outer, 0), s);
  ck_assert_int_eq(sn_shape_leaf(outer, 2)->dims[0], 5);
  ck_assert_ptr_null(sn_shape_leaf(outer, 3));
}
END_TEST

static void check_refused(const sn_shape *s, sn_status want, const char *part) {
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_shape_check(d, SN_NOWHERE, s), want);
  if (want != SN_OK) ck_assert_msg(strstr(sn_diag_get(d, 0)->message, part), "%s", sn_diag_get(d, 0)->message);
  sn_diag_destroy(d);
}

START_TEST(checking) {
  int64_t many[SN_MAX_RANK + 1];
  for (int i = 0; i <= SN_MAX_RANK; i++) many[i] = 1;
  check_refused(f32(2, DIMS(2, 3)), SN_OK, "");
  check_refused(f32(1, DIMS(SN_DIM_UNBOUNDED)), SN_OK, "");
  check_refused(f32(SN_MAX_RANK, many), SN_OK, "");
  check_refused(f32(SN_MAX_RANK + 1, many), SN_ERR_UNSUPPORTED, "rank 33");
  check_refused(f32(2, DIMS(2, -3)), SN_ERR_SHAPE, "-3");
  check_refused(f32(2, DIMS(1ll << 40, 1ll << 40)), SN_ERR_OVERFLOW, "f32[1099511627776,1099511627776]");
  check_refused(f32(2, DIMS(1ll << 31, 1ll << 30)), SN_ERR_OVERFLOW, "f32"); /* elements fit, bytes do not */
  check_refused(f32(3, DIMS(0, 1ll << 40, 1ll << 40)), SN_ERR_OVERFLOW, "f32"); /* strides do not */
  const sn_shape *half = sn_shape_array(arena, SN_TYPE_U8, 1, DIMS(1ll << 62));
  check_refused(sn_shape_tuple(arena, 2, (const sn_shape *const[]){half, half}), SN_ERR_OVERFLOW, "tuple");
  const sn_shape *s = f32(2, DIMS(2, 3));
  check_refused(sn_shape_with_layout(arena, s, sn_layout_make(arena, 1, NULL)), SN_ERR_SHAPE, "layout of 1");
  check_refused(sn_shape_with_layout(arena, s, sn_layout_make(arena, 2, DIMS(0, 0))), SN_ERR_SHAPE, "twice");
  check_refused(sn_shape_with_layout(arena, s, sn_layout_make(arena, 2, DIMS(0, 2))), SN_ERR_SHAPE, "out of range");
}
END_TEST

TCase *shape_cases(void) {
  TCase *t = tcase_create("shape");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, type_names);
  tcase_add_test(t, printing);
  tcase_add_test(t, printing_extra);
  tcase_add_test(t, equality_and_hash);
  tcase_add_test(t, sizes_and_strides);
  tcase_add_test(t, checking);
  return t;
}
