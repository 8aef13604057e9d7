/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Whole modules as text, with what each result element must be as a literal: one row a behaviour. Every row also runs
 * with each allocation failing in turn: a status and nothing left behind. */
#include "fixture.h"
#include "sinter/text.h"

typedef struct row {
  const char *name, *text;
  int replicas, partitions;
  const char *want[4]; /* elements of the root tuple (or the root); of process 0 */
  const char *last[2]; /* the same of the last process, where it differs */
  double tolerance;    /* 0: bits */
  bool lapacke;        /* runs where LAPACKE is */
} row;

#define ADD "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"

static const row rows[] = {
    {.name = "while",
     .text = "c { s = (s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(5)\n "
             "ROOT r = pred[] compare(i, n), direction=LT }\n"
             "b { s = (s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[2] "
             "get-tuple-element(s), index=1\n o = s32[] constant(1)\n"
             " j = s32[] add(i, o)\n y = f32[2] add(x, x)\n ROOT r = (s32[], f32[2]) tuple(j, y) }\n"
             "ENTRY m { z = s32[] constant(0)\n x = f32[2] constant({1, 3})\n s = (s32[], f32[2]) tuple(z, x)\n ROOT w "
             "= (s32[], f32[2]) while(s), condition=c, body=b }",
     .want = {"s32[] 5", "f32[2] {32, 96}"}},
    {.name = "conditional",
     .text = "t { x = f32[] parameter(0)\n ROOT r = f32[] negate(x) }\nf { x = f32[] parameter(0)\n ROOT r = f32[] "
             "add(x, x) }\n"
             "ENTRY m { p = pred[] constant(true)\n q = s32[] constant(7)\n x = f32[] constant(3)\n"
             " a = f32[] conditional(p, x, x), true_computation=t, false_computation=f\n"
             " b = f32[] conditional(q, x, x), branch_computations={t, f}\n ROOT r = (f32[], f32[]) tuple(a, b) }",
     .want = {"f32[] -3", "f32[] 6"}},
    {.name = "nested map runs by frames",
     .text = ADD "in { x = f32[] parameter(0)\n v = f32[1] reshape(x)\n c = f32[2] concatenate(v, v), dimensions={0}\n "
                 "z = f32[] constant(0)\n"
                 " ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply=add }\n"
                 "ENTRY m { x = f32[3] constant({1, 2, 3})\n ROOT r = f32[3] map(x), dimensions={0}, to_apply=in }",
     .want = {"f32[3] {2, 4, 6}"}},
    {.name = "bitcast by layouts",
     .text = "ENTRY m { x = f32[2,3]{0,1} constant({ {1, 2, 3}, {4, 5, 6} })\n ROOT r = f32[6]{0} bitcast(x) }",
     .want = {"f32[6] {1, 4, 2, 5, 3, 6}"}},
    {.name = "bitcast-convert splits",
     .text = "ENTRY m { x = u16[2] constant({258, 772})\n ROOT r = u8[2,2] bitcast-convert(x) }",
     .want = {"u8[2,2] { {2, 1}, {4, 3} }"}},
    {.name = "bitcast-convert joins nibbles",
     .text = "ENTRY m { x = u4[2] constant({1, 2})\n ROOT r = u8[] bitcast-convert(x) }",
     .want = {"u8[] 33"}},
    {.name = "reduce-precision",
     .text = "ENTRY m { x = f32[5] constant({1.00390625, 70000, 1e-8, -inf, 3})\n ROOT r = f32[5] reduce-precision(x), "
             "exponent_bits=5, mantissa_bits=7 }",
     .want = {"f32[5] {1, inf, 0, -inf, 3}"}},
    {.name = "total order",
     .text = "ENTRY m { x = f32[4] constant({-0, nan, 1, -nan})\n y = f32[4] constant({0, inf, 1, -inf})\n"
             " ROOT r = pred[4] compare(x, y), direction=LT, type=TOTALORDER }",
     .want = {"pred[4] {1, 0, 0, 1}"}},
    {.name = "pad, interior and negative",
     .text = "ENTRY m { x = s32[4] constant({1, 2, 3, 4})\n z = s32[] constant(0)\n ROOT r = s32[6] pad(x, z), "
             "padding=-1_1_1 }",
     .want = {"s32[6] {0, 2, 0, 3, 0, 4}"}},
    {.name = "gather with batching dims",
     .text = "ENTRY m { x = s32[2,3] constant({ {1, 2, 3}, {4, 5, 6} })\n i = s32[2,1] constant({ {2}, {9} })\n"
             " ROOT r = s32[2] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
             "operand_batching_dims={0},"
             " start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1} }",
     .want = {"s32[2] {3, 6}"}},
    {.name = "scatter adds, skips what is outside",
     .text = ADD "ENTRY m { x = f32[3] constant({1, 2, 3})\n i = s32[4,1] constant({ {0}, {2}, {0}, {7} })\n u = "
                 "f32[4] constant({10, 20, 30, 40})\n"
                 " ROOT r = f32[3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
                 "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }",
     .want = {"f32[3] {41, 2, 23}"}},
    {.name = "reduce-window, padding and dilation",
     .text = ADD "ENTRY m { x = f32[4] constant({1, 2, 3, 4})\n z = f32[] constant(0)\n"
                 " ROOT r = f32[2] reduce-window(x, z), window={size=2 stride=2 pad=1_1 rhs_dilate=2}, to_apply=add }",
     .want = {"f32[2] {2, 6}"}},
    {.name = "select-and-scatter",
     .text =
         ADD "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=GE }\n"
             "ENTRY m { x = f32[4] constant({1, 5, 3, 2})\n s = f32[2] constant({10, 20})\n z = f32[] constant(0)\n"
             " ROOT r = f32[4] select-and-scatter(x, s, z), window={size=2 stride=2}, select=ge, scatter=add }",
     .want = {"f32[4] {0, 10, 20, 0}"}},
    {.name = "sort, stable with NaN last",
     .text = "lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)\n"
             " ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }\n"
             "ENTRY m { x = f32[5] constant({2, nan, 1, 2, -1})\n i = s32[5] iota(), iota_dimension=0\n"
             " ROOT r = (f32[5], s32[5]) sort(x, i), dimensions={0}, is_stable=true, to_apply=lt }",
     .want = {"f32[5] {-1, 1, 2, 2, nan}", "s32[5] {4, 2, 0, 3, 1}"}},
    {.name = "topk, smallest",
     .text = "ENTRY m { x = s32[4] constant({3, 1, 2, 1})\n ROOT r = (s32[2], s32[2]) topk(x), k=2, largest=false }",
     .want = {"s32[2] {1, 1}", "s32[2] {1, 3}"}},
    {.name = "scan",
     .text = "step { x = f32[] parameter(0)\n c = f32[] parameter(1)\n s = f32[] add(c, x)\n ROOT r = (f32[], f32[]) "
             "tuple(s, s) }\n"
             "ENTRY m { x = f32[4] constant({1, 2, 3, 4})\n z = f32[] constant(10)\n"
             " ROOT r = (f32[4], f32[]) scan(x, z), dimensions={0}, to_apply=step, num_carries=1, is_reverse=true }",
     .want = {"f32[4] {20, 19, 17, 14}", "f32[] 20"}},
    {.name = "convolution, groups and reversal",
     .text = "ENTRY m { x = f32[1,3,2] constant({ { {1, 10}, {2, 20}, {3, 30} } })\n k = f32[2,1,2] constant({ { {1, "
             "1} }, { {2, 3} } })\n"
             " ROOT r = f32[1,2,2] convolution(x, k), window={size=2 rhs_reversal=1}, dim_labels=b0f_0io->b0f, "
             "feature_group_count=2 }",
     .want = {"f32[1,2,2] { { {4, 50}, {7, 90} } }"}},
    {.name = "fft of a length with a large prime",
     .text = "ENTRY m { x = c64[1] constant({(2, 1)})\n b = c64[7] broadcast(x), dimensions={0}\n ROOT r = c64[7] "
             "fft(b), fft_type=FFT, fft_length={7} }",
     .want = {NULL}},
    {.name = "rfft and back",
     .text = "ENTRY m { x = f32[6] constant({1, 2, 3, 4, 5, 7})\n f = c64[4] fft(x), fft_type=RFFT, fft_length={6}\n "
             "ROOT r = f32[6] fft(f), fft_type=IRFFT, fft_length={6} }",
     .want = {"f32[6] {1, 2, 3, 4, 5, 7}"},
     .tolerance = 1e-6},
    {.name = "cholesky, upper",
     .text = "ENTRY m { x = f64[2,2] constant({ {4, 2}, {9, 5} })\n ROOT r = f64[2,2] cholesky(x) }",
     .want = {"f64[2,2] { {2, 1}, {0, 2} }"}},
    {.name = "triangular solve, right, adjoint",
     .text = "ENTRY m { a = f32[2,2] constant({ {2, 0}, {1, 4} })\n b = f32[1,2] constant({ {2, 9} })\n"
             " ROOT r = f32[1,2] triangular-solve(a, b), lower=true, transpose_a=ADJOINT }",
     .want = {"f32[1,2] { {1, 2} }"}},
    {.name = "batch norm, training",
     .text = "ENTRY m { x = f32[2,1] constant({ {1}, {3} })\n s = f32[1] constant({2})\n o = f32[1] constant({5})\n"
             " ROOT r = (f32[2,1], f32[1], f32[1]) batch-norm-training(x, s, o), epsilon=0, feature_index=1 }",
     .want = {"f32[2,1] { {3}, {7} }", "f32[1] {2}", "f32[1] {1}"}},
    {.name = "batch norm, gradient",
     .text = "ENTRY m { x = f32[2,1] constant({ {1}, {3} })\n s = f32[1] constant({2})\n m = f32[1] constant({2})\n v "
             "= f32[1] constant({1})\n g = f32[2,1] constant({ {1}, {0} })\n"
             " ROOT r = (f32[2,1], f32[1], f32[1]) batch-norm-grad(x, s, m, v, g), epsilon=0, feature_index=1 }",
     .want = {"f32[2,1] { {0}, {0} }", "f32[1] {-1}", "f32[1] {1}"}},
    {.name = "ragged dot",
     .text = "ENTRY m { a = f32[3,2] constant({ {1, 2}, {3, 4}, {5, 6} })\n b = f32[2,2,1] constant({ { {1}, {1} }, { "
             "{10}, {0} } })\n g = s32[2] constant({1, 2})\n"
             " ROOT r = f32[3,1] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
             "lhs_ragged_dims={0}, rhs_group_dims={0} }",
     .want = {"f32[3,1] { {3}, {30}, {50} }"}},
    {.name = "scaled dot",
     .text = "ENTRY m { a = f32[1,4] constant({ {1, 2, 3, 4} })\n b = f32[4,1] constant({ {1}, {1}, {1}, {1} })\n s = "
             "f32[1,2] constant({ {2, 10} })\n t = f32[4,1] constant({ {1}, {1}, {1}, {1} })\n"
             " ROOT r = f32[1,1] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
     .want = {"f32[1,1] { {76} }"}},
    {.name = "dot of pred and of s8",
     .text = "ENTRY m { a = s8[1,3] constant({ {100, 100, 1} })\n b = s8[3,1] constant({ {100}, {100}, {1} })\n"
             " ROOT r = s32[1,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
     .want = {"s32[1,1] { {20001} }"}},
    {.name = "dynamic sizes",
     .text = ADD "ENTRY m { x = f32[4] constant({1, 2, 3, 4})\n n = s32[] constant(2)\n d = f32[<=4] "
                 "set-dimension-size(x, n), dimensions={0}\n e = f32[<=4] add(d, d)\n"
                 " z = f32[] constant(0)\n s = f32[] reduce(e, z), dimensions={0}, to_apply=add\n g = s32[] "
                 "get-dimension-size(e), dimensions={0}\n ROOT r = (f32[], s32[]) tuple(s, g) }",
     .want = {"f32[] 6", "s32[] 2"}},
    {.name = "asynchronous call and copy",
     .text = "f { x = f32[2] parameter(0)\n ROOT r = f32[2] negate(x) }\n"
             "ENTRY m { x = f32[2] constant({1, 2})\n s = ((f32[2]), f32[2], u32[]) async-start(x), calls=f\n u = "
             "((f32[2]), f32[2], u32[]) async-update(s)\n"
             " y = f32[2] async-done(u)\n c = (f32[2], f32[2], u32[]) copy-start(y)\n ROOT d = f32[2] copy-done(c) }",
     .want = {"f32[2] {-1, -2}"}},
    {.name = "all-reduce by replicas",
     .replicas = 3,
     .text = ADD "ENTRY m { i = u32[] replica-id()\n x = f32[] convert(i)\n ROOT r = f32[] all-reduce(x), "
                 "replica_groups={}, to_apply=add }",
     .want = {"f32[] 3"}},
    {.name = "all-gather of partitions",
     .partitions = 4,
     .text = "ENTRY m { i = u32[] partition-id()\n x = u32[1] reshape(i)\n"
             " ROOT r = u32[2] all-gather(x), channel_id=1, replica_groups={{0,2},{3,1}}, dimensions={0}, "
             "use_global_device_ids=true }",
     .want = {"u32[2] {0, 2}"},
     .last = {"u32[2] {3, 1}"}},
    {.name = "all-gather, started and done",
     .partitions = 2,
     .text = "ENTRY m { i = u32[] partition-id()\n x = u32[1] reshape(i)\n"
             " s = (u32[1], u32[2]) all-gather-start(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}, "
             "use_global_device_ids=true\n"
             " ROOT r = u32[2] all-gather-done(s) }",
     .want = {"u32[2] {0, 1}"}},
    {.name = "reduce-scatter",
     .replicas = 2,
     .text = ADD "ENTRY m { x = f32[2] constant({1, 2})\n ROOT r = f32[1] reduce-scatter(x), replica_groups={{0,1}}, "
                 "dimensions={0}, to_apply=add }",
     .want = {"f32[1] {2}"},
     .last = {"f32[1] {4}"}},
    {.name = "all-to-all",
     .replicas = 2,
     .text = "ENTRY m { i = u32[] replica-id()\n b = u32[2] broadcast(i), dimensions={}\n j = u32[2] iota(), "
             "iota_dimension=0\n t = u32[] constant(10)\n"
             " tb = u32[2] broadcast(t), dimensions={}\n k = u32[2] multiply(b, tb)\n x = u32[2] add(k, j)\n"
             " ROOT r = u32[2] all-to-all(x), replica_groups={{0,1}}, dimensions={0} }",
     .want = {"u32[2] {0, 10}"},
     .last = {"u32[2] {1, 11}"}},
    {.name = "collective-permute",
     .replicas = 3,
     .text =
         "ENTRY m { i = u32[] replica-id()\n ROOT r = u32[] collective-permute(i), source_target_pairs={{0,2},{2,1}} }",
     .want = {"u32[] 0"},
     .last = {"u32[] 0"}},
    {.name = "collective-broadcast",
     .replicas = 2,
     .text = "ENTRY m { i = u32[] replica-id()\n ROOT r = u32[] collective-broadcast(i), replica_groups={{1,0}} }",
     .want = {"u32[] 1"}},
    {.name = "send and receive",
     .replicas = 2,
     .text = "ENTRY m { i = u32[] replica-id()\n t = token[] after-all()\n r = (u32[], u32[], token[]) recv(t), "
             "channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}\n"
             " s = (u32[], u32[], token[]) send(i, t), channel_id=1, "
             "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}\n"
             " sd = token[] send-done(s), channel_id=1\n d = (u32[], token[]) recv-done(r), channel_id=1\n ROOT v = "
             "u32[] get-tuple-element(d), index=0 }",
     .want = {"u32[] 1"},
     .last = {"u32[] 0"}},
    {.name = "a collective in a loop",
     .replicas = 2,
     .text = ADD "c { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] "
                 "constant(3)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
                 "b { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[] "
                 "get-tuple-element(s), index=1\n o = s32[] constant(1)\n"
                 " j = s32[] add(i, o)\n y = f32[] all-reduce(x), replica_groups={}, to_apply=add\n ROOT r = (s32[], "
                 "f32[]) tuple(j, y) }\n"
                 "ENTRY m { z = s32[] constant(0)\n x = f32[] constant(1)\n s = (s32[], f32[]) tuple(z, x)\n w = "
                 "(s32[], f32[]) while(s), condition=c, body=b\n"
                 " ROOT r = f32[] get-tuple-element(w), index=1 }",
     .want = {"f32[] 8"}},
    {.name = "custom calls that change nothing",
     .text =
         "ENTRY m { x = f32[2] constant({1, 2})\n ROOT r = f32[2] custom-call(x), custom_call_target=\"Sharding\" }",
     .want = {"f32[2] {1, 2}"}},
    /* LAPACK's names with options as operands, as JAX wrote them until 2024. */
    {.name = "lapack_dpotrf",
     .text = "ENTRY m { o = s32[] constant(1)\n a = f64[2,2] constant({{4, 2}, {2, 5}})\n"
             " ROOT r = (f64[2,2], s32[]) custom-call(o, o, o, a), custom_call_target=\"lapack_dpotrf\" }",
     .want = {"f64[2,2] {{2, 2}, {1, 2}}", "s32[] 0"}},
    {.name = "blas_strsm",
     .text = "ENTRY m { o = s32[] constant(1)\n z = s32[] constant(0)\n f = f32[] constant(1)\n a = f32[2,2] constant({{2, 9}, {1, 1}})\n"
             " b = f32[2,1] constant({{2}, {3}})\n ROOT r = f32[2,1] custom-call(o, o, z, z, o, o, o, f, a, b), custom_call_target=\"blas_strsm\" }",
     .want = {"f32[2,1] {{1}, {2}}"}},
    {.name = "lapack_dgetrf",
     .text = "ENTRY m { o = s32[] constant(2)\n a = f64[2,2] constant({{0, 1}, {2, 3}})\n"
             " ROOT r = (f64[2,2], s32[2], s32[]) custom-call(o, o, o, a), custom_call_target=\"lapack_dgetrf\" }",
     .want = {"f64[2,2] {{2, 3}, {0, 1}}", "s32[2] {2, 2}", "s32[] 0"}},
    {.name = "lapack_dsyevd",
     .tolerance = 1e-14,
     .text = "ENTRY m { o = s32[] constant(1)\n a = f64[2,2] constant({{2, 7}, {1, 2}})\n"
             " e = (f64[2,2], f64[2], s32[], f64[1], s32[1]) custom-call(o, o, o, a), custom_call_target=\"lapack_dsyevd\"\n"
             " ROOT w = f64[2] get-tuple-element(e), index=1 }",
     .want = {"f64[2] {1, 3}"}},
    {.name = "lapack_dgesdd",
     .tolerance = 1e-14,
     .text = "ENTRY m { z = s32[] constant(0)\n a = f64[2,2] constant({{0, 3}, {-2, 0}})\n"
             " e = (f64[2,2], f64[2], f64[2,2], f64[2,2], s32[], s32[1], f64[1]) custom-call(z, z, z, z, z, z, a), custom_call_target=\"lapack_dgesdd\"\n"
             " ROOT s = f64[2] get-tuple-element(e), index=1 }",
     .want = {"f64[2] {3, 2}"}},
    {.name = "lapack_dgeev",
     .lapacke = true,
     .tolerance = 1e-14,
     .text = "ENTRY m { o = s32[] constant(1)\n v = u8[] constant(86)\n a = f64[2,2] constant({{0, -1}, {1, 0}})\n"
             " e = (f64[2,2], f64[2,2], f64[2,2], f64[2], f64[2], c128[2,2], c128[2,2], s32[]) custom-call(o, o, v, v, a), custom_call_target=\"lapack_dgeev\"\n"
             " re = f64[2] get-tuple-element(e), index=3\n im = f64[2] get-tuple-element(e), index=4\n i = s32[] get-tuple-element(e), index=7\n"
             " ROOT r = (f64[2], f64[2], s32[]) tuple(re, im, i) }",
     .want = {"f64[2] {0, 0}", "f64[2] {1, -1}", "s32[] 0"}},
    {.name = "lapack_zgees",
     .lapacke = true,
     .tolerance = 1e-14,
     .text = "ENTRY m { o = s32[] constant(1)\n v = u8[] constant(86)\n n = u8[] constant(78)\n a = c128[2,2] constant({{(2, 1), (1, 0)}, {(0, 0), (3, 0)}})\n"
             " e = (c128[2,2], f64[2], c128[2], c128[2,2], s32[], s32[]) custom-call(o, o, v, n, a), custom_call_target=\"lapack_zgees\"\n"
             " t = c128[2,2] get-tuple-element(e), index=0\n w = c128[2] get-tuple-element(e), index=2\n ROOT r = (c128[2,2], c128[2]) tuple(t, w) }",
     .want = {"c128[2,2] {{(2, 1), (1, 0)}, {(0, 0), (3, 0)}}", "c128[2] {(2, 1), (3, 0)}"}},
    {.name = "lapack_dgeqrf and lapack_dorgqr",
     .lapacke = true,
     .tolerance = 1e-14,
     .text = "ENTRY m { o = s32[] constant(1)\n a = f64[2,1] constant({{3}, {4}})\n"
             " q = (f64[2,1], f64[1], s32[], f64[1]) custom-call(o, o, o, o, a), custom_call_target=\"lapack_dgeqrf\"\n"
             " h = f64[2,1] get-tuple-element(q), index=0\n t = f64[1] get-tuple-element(q), index=1\n"
             " ROOT r = (f64[2,1], s32[], f64[1]) custom-call(o, o, o, o, o, h, t), custom_call_target=\"lapack_dorgqr\" }",
     .want = {"f64[2,1] {{-0.6}, {-0.8}}", "s32[] 0"}},
    {.name = "lapack_dgehrd, lapack_dsytrd",
     .lapacke = true,
     .text = "ENTRY m { o = s32[] constant(1)\n n = s32[] constant(2)\n a = f64[2,2] constant({{2, 1}, {1, 3}})\n"
             " h = (f64[2,2], f64[1], s32[], f64[1]) custom-call(n, o, n, n, o, o, a), custom_call_target=\"lapack_dgehrd\"\n"
             " t = (f64[2,2], f64[2], f64[1], f64[1], s32[], f64[1]) custom-call(n, o, n, o, o, a), custom_call_target=\"lapack_dsytrd\"\n"
             " x = f64[2,2] get-tuple-element(h), index=0\n d = f64[2] get-tuple-element(t), index=1\n e = f64[1] get-tuple-element(t), index=2\n"
             " ROOT r = (f64[2,2], f64[2], f64[1]) tuple(x, d, e) }",
     .want = {"f64[2,2] {{2, 1}, {1, 3}}", "f64[2] {2, 3}", "f64[1] {1}"}},
};

typedef struct loaded {
  sn_diag *d;
  sn_module *m;
  int n;
  sn_eval_options o;
} loaded;

static void load(const row *r, loaded *l) {
  memset(l, 0, sizeof *l);
  ck_assert_int_eq(sn_diag_create(&l->d), SN_OK);
  sn_status s = sn_hlo_parse(l->d, r->name, r->text, strlen(r->text), &l->m);
  if (s != SN_OK) sn_diag_print(l->d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  sn_eval_options_init(&l->o);
  l->o.replicas = r->replicas ? r->replicas : 1;
  l->o.partitions = r->partitions ? r->partitions : 1;
  l->n = l->o.replicas * l->o.partitions;
  ck_assert_int_le(l->n, 4);
}

static void unload(loaded *l) {
  sn_module_destroy(l->m);
  sn_diag_destroy(l->d);
}

static void check_value(const row *r, const char *want, sn_array *got) {
  sn_array *w;
  sn_array_difference diff;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_hlo_parse_literal(d, want, &w);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  s = sn_array_compare(got, w, r->tolerance, r->tolerance, &diff);
  ck_assert_msg(s == SN_OK, "%s: %s", r->name, sn_status_text(s));
  sn_str text = {0};
  sn_hlo_print_literal(&text, got);
  ck_assert_msg(diff.n_bad == 0, "%s: got %s, want %s", r->name, text.data, want);
  sn_str_finish(&text);
  sn_array_release(w);
  sn_diag_destroy(d);
}

static void check_process(const row *r, const char *const *want, int n_want, sn_array *got) {
  bool tuple = sn_shape_is_tuple(sn_array_shape(got));
  for (int k = 0; k < n_want && want[k]; k++) check_value(r, want[k], tuple ? sn_array_element(got, k) : got);
}

/* The row can run here; else it says that it does not. */
static bool runs(const row *r) {
  static const char *const names[] = {"liblapacke.so.3", "liblapacke.so"};
  sn_library *l = NULL;
  bool have = !r->lapacke || sn_library_open(NULL, names, 2, &l) == SN_OK;
  sn_library_close(l);
  if (!have) printf("not run: %s: LAPACKE is not here (package liblapacke)\n", r->name);
  return have;
}

START_TEST(test_row) {
  const row *r = &rows[_i];
  loaded l;
  if (!runs(r)) return;
  sn_array *out[4] = {NULL};
  load(r, &l);
  sn_status s = sn_eval_replicated(l.d, l.m, &l.o, 0, NULL, out);
  if (s != SN_OK) sn_diag_print(l.d, stderr, false);
  ck_assert_msg(s == SN_OK, "%s", r->name);
  check_process(r, r->want, 4, out[0]);
  check_process(r, r->last, 2, out[l.n - 1]);
  for (int p = 0; p < l.n; p++) sn_array_release(out[p]);
  unload(&l);
}
END_TEST

START_TEST(test_row_without_memory) {
  const row *r = &rows[_i];
  loaded l;
  if (r->lapacke) return; /* allocates by itself */
  load(r, &l);
  sn_status s = SN_ERR_MEMORY;
  for (int64_t n = 0; s != SN_OK; n++) {
    sn_array *out[4] = {NULL};
    int64_t live = sn_alloc_live();
    (void)sn_alloc_fail_after(n);
    s = sn_eval_replicated(NULL, l.m, &l.o, 0, NULL, out);
    (void)sn_alloc_fail_after(-1);
    ck_assert_msg(s == SN_OK || s == SN_ERR_MEMORY, "%s, allocation %lld: %s", r->name, (long long)n,
                  sn_status_text(s));
    for (int p = 0; p < l.n; p++) sn_array_release(out[p]);
    ck_assert_msg(sn_alloc_live() == live, "%s, allocation %lld: %lld left behind", r->name, (long long)n,
                  (long long)(sn_alloc_live() - live));
    ck_assert_int_lt(n, 5000);
  }
  unload(&l);
}
END_TEST

/* ---- what must fail, and how ---- */

static const struct {
  const char *text;
  int replicas;
  sn_status status;
  const char *says;
} faults[] = {
    {"t { x = f32[] parameter(0)\n ROOT r = f32[] collective-permute(x), source_target_pairs={{0,1}} }\nf { ROOT x = "
     "f32[] parameter(0) }\n"
     "ENTRY m { p = u32[] replica-id()\n z = u32[] constant(0)\n c = pred[] compare(p, z), direction=EQ\n x = f32[] "
     "constant(1)\n ROOT r = f32[] conditional(c, x, x), true_computation=t, false_computation=f }",
     2, SN_ERR_DEADLOCK, "process 0 waits"},
    {"ENTRY m { t = token[] after-all()\n r = (u32[], u32[], token[]) recv(t), channel_id=3\n ROOT d = (u32[], "
     "token[]) recv-done(r), channel_id=3 }",
     1, SN_ERR_DEADLOCK, "waits"},
    {"ENTRY m { x = f32[2] constant({1, 2})\n ROOT r = f32[2] custom-call(x), custom_call_target=\"Shardink\" }", 1,
     SN_ERR_UNSUPPORTED, "Shardink"},
    {"ENTRY m { a = f32[2,2] constant({{1, 0}, {0, 1}})\n ROOT r = (f32[2,2], s32[]) custom-call(a), custom_call_target=\"lapack_dpotrf_ffi\" }", 1,
     SN_ERR_TYPE, "another element type than f32"},
    {"ENTRY m { a = f64[2,2] constant({{1, 0}, {0, 1}})\n ROOT r = (f64[2,1], s32[]) custom-call(a), custom_call_target=\"lapack_dpotrf_ffi\" }", 1,
     SN_ERR_SHAPE, "do not fit"},
    {"ENTRY m { t = token[] after-all()\n ROOT r = (f32[], token[]) infeed(t) }", 1, SN_ERR_USAGE, "infeed"},
};

START_TEST(test_fault) {
  sn_diag *d;
  sn_module *m;
  sn_array *out[4] = {NULL};
  sn_eval_options o;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_hlo_parse(d, "fault", faults[_i].text, strlen(faults[_i].text), &m), SN_OK);
  sn_eval_options_init(&o);
  o.replicas = faults[_i].replicas;
  ck_assert_int_eq(sn_eval_replicated(d, m, &o, 0, NULL, out), faults[_i].status);
  ck_assert_ptr_null(out[0]);
  ck_assert_uint_gt(sn_diag_stored(d), 0);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, faults[_i].says));
  ck_assert_uint_gt(sn_diag_get(d, 0)->loc.line, 0);
  sn_module_destroy(m);
  sn_diag_destroy(d);
}
END_TEST

/* ---- the world outside ---- */

static sn_status twice(void *ctx, sn_diag *d, const sn_instr *i, int n, sn_array *const *operands, sn_array **out) {
  (void)d;
  ++*(int *)ctx;
  ck_assert_int_eq(n, 1);
  SN_TRY(sn_array_create(i->shape, out));
  for (int k = 0; k < 2; k++) ((float *)sn_array_data(*out))[k] = 2 * ((float *)sn_array_data(operands[0]))[k];
  return SN_OK;
}

static void on_outfeed(void *ctx, int process, const sn_array *value) {
  (void)process;
  *(double *)ctx += array_at(value, 0);
}

START_TEST(test_outside) {
  static const char text[] =
      "ENTRY m { t = token[] after-all()\n i = (f32[2], token[]) infeed(t)\n x = f32[2] get-tuple-element(i), "
      "index=0\n u = token[] get-tuple-element(i), index=1\n"
      " y = f32[2] custom-call(x), custom_call_target=\"twice\"\n o = token[] outfeed(y, u), outfeed_shape=f32[2]\n "
      "ROOT r = f32[2] add(y, x) }";
  sn_diag *d;
  sn_module *m;
  sn_array *out = NULL, *feed = array_of(SN_TYPE_F32, 1, DIMS(2), (const double[]){3, 4});
  sn_eval_options o;
  int calls = 0;
  double fed = 0;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_hlo_parse(d, "outside", text, strlen(text), &m), SN_OK);
  sn_eval_options_init(&o);
  o.infeed = &feed;
  o.n_infeed = 1;
  o.outfeed = on_outfeed;
  o.outfeed_ctx = &fed;
  o.customs = (const sn_eval_custom[]){{"twice", twice, &calls}, {NULL, NULL, NULL}};
  ck_assert_int_eq(sn_eval(d, m, &o, 0, NULL, &out), SN_OK);
  ck_assert_int_eq(calls, 1);
  ck_assert(fed == 6 && array_at(out, 0) == 9 && array_at(out, 1) == 12);
  sn_array_release(out);
  sn_array_release(feed);
  sn_module_destroy(m);
  sn_diag_destroy(d);
}
END_TEST

/* One instruction alone, control flow too. */
START_TEST(test_single_instruction) {
  const row *r = &rows[0];
  loaded l;
  sn_array *out = NULL,
           *parts[2] = {array_of(SN_TYPE_S32, 0, NULL, (const double[]){3}),
                        array_of(SN_TYPE_F32, 1, DIMS(2), (const double[]){1, 1})},
           *state;
  load(r, &l);
  ck_assert_int_eq(sn_array_create_tuple(2, parts, &state), SN_OK);
  ck_assert_int_eq(sn_eval_instr(l.d, l.m->entry->root, NULL, &state, &out), SN_OK);
  ck_assert(array_at(sn_array_element(out, 1), 0) == 4);
  sn_array_release(out);
  sn_array_release(state);
  sn_array_release(parts[0]);
  sn_array_release(parts[1]);
  unload(&l);
}
END_TEST

TCase *text_cases(void) {
  TCase *c = tcase_create("text");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, test_row, 0, (int)(sizeof rows / sizeof rows[0]));
  tcase_add_loop_test(c, test_row_without_memory, 0, (int)(sizeof rows / sizeof rows[0]));
  tcase_add_loop_test(c, test_fault, 0, (int)(sizeof faults / sizeof faults[0]));
  tcase_add_test(c, test_outside);
  tcase_add_test(c, test_single_instruction);
  return c;
}
