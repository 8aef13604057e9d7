/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "emit.h"
val math_rsqrt(emit *e, val a) { return div_f(e, const_float(e, a, 1), call1(e, "llvm.sqrt", a)); }
val math_exp(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "exp"); return a; }
val math_expm1(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "expm1"); return a; }
val math_log(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "log"); return a; }
val math_log1p(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "log1p"); return a; }
val math_tanh(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "tanh"); return a; }
val math_logistic(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "logistic"); return a; }
val math_erf(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "erf"); return a; }
val math_sin(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "sin"); return a; }
val math_cos(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "cos"); return a; }
val math_tan(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "tan"); return a; }
val math_asin(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "asin"); return a; }
val math_acos(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "acos"); return a; }
val math_atan(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "atan"); return a; }
val math_sinh(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "sinh"); return a; }
val math_cosh(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "cosh"); return a; }
val math_asinh(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "asinh"); return a; }
val math_acosh(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "acosh"); return a; }
val math_atanh(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "atanh"); return a; }
val math_cbrt(emit *e, val a) { emit_fail(e, SN_ERR_UNSUPPORTED, "cbrt"); return a; }
val math_pow(emit *e, val a, val b) { (void)b; emit_fail(e, SN_ERR_UNSUPPORTED, "pow"); return a; }
val math_atan2(emit *e, val a, val b) { (void)b; emit_fail(e, SN_ERR_UNSUPPORTED, "atan2"); return a; }
