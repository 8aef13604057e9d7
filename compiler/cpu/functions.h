/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of math_*.c share. Each function comes in two widths: f32 with coefficients fitted for it, or by way of f64 where speed does not matter.
 * Polynomials are minimax fits (Remez exchange) made for this file; the remark behind each gives log2 of its largest error. */
#ifndef SINTER_CPU_FUNCTIONS_H
#define SINTER_CPU_FUNCTIONS_H

#include "emit.h"

static inline bool is_single(val a) { return bits_of(a) == 32; }
static inline val number(emit *e, val as, double v) { return const_float(e, as, v); }
static inline val neg(emit *e, val a) { return LLVMBuildFNeg(e->b, a, ""); }
static inline val less(emit *e, val a, val b) { return fcmp(e, LLVMRealOLT, a, b); }
static inline val absolute(emit *e, val a) { return call1(e, "llvm.fabs", a); }
static inline val with_sign(emit *e, val magnitude, val sign) { return call2(e, "llvm.copysign", magnitude, sign); }
static inline val root(emit *e, val a) { return call1(e, "llvm.sqrt", a); }
static inline val float_bits(emit *e, val a) { return LLVMBuildBitCast(e->b, a, like(e, is_single(a) ? e->i32 : e->i64, a), ""); }
static inline val bits_float(emit *e, val i) { return LLVMBuildBitCast(e->b, i, like(e, bits_of(i) == 32 ? e->f32 : e->f64, i), ""); }
static inline val infinity_of(emit *e, val as) { return const_bits(e, as, is_single(as) ? UINT64_C(0x7f800000) : UINT64_C(0x7ff0000000000000)); }
static inline val nan_of(emit *e, val as) { return const_bits(e, as, is_single(as) ? UINT64_C(0x7fc00000) : UINT64_C(0x7ff8000000000000)); }
static inline val to_f64(emit *e, val a) { return cast(e, LLVMFPExt, a, e->f64); }
static inline val to_f32(emit *e, val a) { return cast(e, LLVMFPTrunc, a, e->f32); }

val polynomial(emit *e, val x, int n, const double *c);          /* c[0] + c[1] x + … by Horner's rule */
#define POLYNOMIAL(e, x, table) polynomial(e, x, (int)(sizeof(table) / sizeof((table)[0])), table)
val nearest_int(emit *e, val x, val factor, val *n);              /* x * factor rounded, as a float; *n: as an integer of the same width (low bits where large) */
typedef struct exponent { val n, f; } exponent;                    /* a whole number as an integer (low bits where large) and as a float */
val scale(emit *e, val x, exponent n);                            /* x * 2^n, rounded once */
val exp_reduced(emit *e, val x, exponent *n, val *r);                  /* x = n ln 2 + r; returns (e^r - 1 - r) / r^2 */
val exp_times(emit *e, val x, int power);                         /* e^x * 2^power */
val log_sum(emit *e, val hi, val lo);                             /* log(hi + lo), |lo| small against hi > 0 */

#endif
