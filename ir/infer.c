/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape inference: the form of an instruction, then the rule its row names. */
#include "infer.h"

#include "ir_internal.h"

#include <inttypes.h>

static const sn_shape_rule shape_rules[SN_OP_COUNT] = {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  [SN_OP_##id] = sn_shape_rule_##shape,
#include "sinter/ops.def"
#undef SN_OP
};

sn_status sn_infer_fail(sn_diag *d, const sn_infer *in, sn_status status, const char *fmt, ...) {
  if (!d) return status;
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  const char *name = in->name ? in->name : "";
  return sn_error(d, in->loc, status, "%s%s%s: %s", sn_opcode_text(in->op), name[0] ? " %" : "",
                  name, text);
}

static sn_status infer_check_operands(sn_diag *d, const sn_infer *in) {
  for (uint32_t k = 0; k < in->n_operands; k++) {
    const sn_shape *s = in->operands[k];
    if (!s) return sn_infer_fail(d, in, SN_ERR_SHAPE, "operand %" PRIu32 " has no shape", k);
    if (s->rank > SN_MAX_RANK) {
      return sn_infer_fail(d, in, SN_ERR_UNSUPPORTED,
                           "operand %" PRIu32 " has rank %d, at most %d is supported", k, s->rank,
                           SN_MAX_RANK);
    }
  }
  if (in->given && in->given->rank > SN_MAX_RANK) {
    return sn_infer_fail(d, in, SN_ERR_UNSUPPORTED,
                         "the result has rank %d, at most %d is supported", in->given->rank,
                         SN_MAX_RANK);
  }
  return SN_OK;
}

sn_status sn_infer_rule(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *s = NULL;
  *out = NULL;
  SN_TRY(infer_check_operands(d, in));
  SN_TRY(shape_rules[in->op](d, in, &s));
  SN_TRY(sn_shape_check(d, in->loc, s));
  *out = s;
  return SN_OK;
}

sn_status sn_infer_shape(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  *out = NULL;
  if ((unsigned)in->op >= SN_OP_COUNT)
    return sn_error(d, in->loc, SN_ERR_NAME, "opcode %d does not exist", (int)in->op);
  SN_TRY(sn_row_check(d, in->loc, in->name, in->op, in->n_operands, in->n_attrs, in->attrs,
                      in->n_called));
  return sn_infer_rule(d, in, out);
}
