/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* StableHLO in: what JAX, PyTorch and TensorFlow export, as text (MLIR's generic form and StableHLO's pretty forms) or as portable bytecode
 * (VHLO 0.9 … 1.20 in MLIR bytecode 0 … 6), becomes an HLO module. */
#ifndef SINTER_STABLEHLO_H
#define SINTER_STABLEHLO_H

#include "sinter/eval.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_stablehlo_options {
  size_t struct_size;
  const char *entry;               /* the function to run; NULL: `main`, or the only function when there is one */
  /* Programs with `?` dimensions are specialised to the shapes of their arguments. */
  int n_arg_shapes;                /* 0: none given; else one an argument of the entry (NULL: as the type says) */
  const sn_shape *const *arg_shapes;
  int64_t every_dimension;         /* size of each `?` of the arguments without a shape above, and value of each leading integer scalar that
                                    * stands for a dimension variable; 0: such programs are refused */
  int64_t platform;                /* value of an argument with jax.global_constant = "_platform_index" */
} sn_stablehlo_options;
void sn_stablehlo_options_init(sn_stablehlo_options *o);

/* Is this MLIR bytecode (by its first bytes)? Is this MLIR text rather than HLO text (by its first tokens)? */
bool sn_stablehlo_is_bytecode(const void *data, size_t n_bytes);
bool sn_stablehlo_is_text(const char *text, size_t n_bytes);

/* Text or bytecode, found by its content. `file` names it in locations (copied). Reports what was expected, what was found and a hint at file:line:col.
 * Never crashes, hangs or recurses by user-controlled depth; the input may be any bytes. Verified: the module passes sn_module_verify.
 * Registers `text` on d as the source of `file`: keep it while d reports on this module. o NULL: the defaults. */
SN_NODISCARD sn_status sn_stablehlo_parse(sn_diag *d, const char *file, const void *text, size_t n_bytes, const sn_stablehlo_options *o, sn_module **out);

/* For sn_eval_options.customs: check.expect_eq, check.expect_close, check.expect_almost_eq, check.eq and the rest of the check dialect, and
 * interpreter.run_parallel. A failed check is SN_ERR_MISMATCH at its location. Ends with target NULL. */
const sn_eval_custom *sn_stablehlo_customs(void);
/* Does the module check itself (check.*)? Such programs compare with values that were recorded with sums rounded at every step: sn_eval_options.stepwise. */
bool sn_stablehlo_has_checks(const sn_module *m);
/* ---- StableHLO out ---- */

/* The module as StableHLO text that this reader and MLIR's read back to an equal module. SN_ERR_UNSUPPORTED, at the instruction, where StableHLO has no form:
 * fusions, layouts, asynchronous pairs, control edges. */
SN_NODISCARD sn_status sn_stablehlo_print(sn_diag *d, const sn_module *m, sn_str *to);
/* The same as a portable artifact: VHLO in MLIR bytecode, for readers of StableHLO `version` ("1.0.0" to "1.20.0"; NULL: the newest). Binary: use to->n. */
SN_NODISCARD sn_status sn_stablehlo_write(sn_diag *d, const sn_module *m, const char *version, sn_str *to);

#ifdef __cplusplus
}
#endif
#endif
