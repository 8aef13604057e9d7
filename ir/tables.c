/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The op, attribute and word tables, read from their .def files, and look-ups by text. */
#include "ir_internal.h"

#include <string.h>

/* Each op's attribute list becomes a static array of its own. */
#define SN_LIST(...) {__VA_ARGS__, SN_ATTR_END}
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  static const uint16_t op_attrs_##id[] = SN_LIST attrs;
#include "sinter/ops.def"
#undef SN_OP

const sn_op_info sn_ops[SN_OP_COUNT] = {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  {text, lo, hi, (uint32_t)(traits), op_attrs_##id, #shape, #index, #diff, #batch},
#include "sinter/ops.def"
#undef SN_OP
};

const sn_attr_info sn_attrs[SN_ATTR_COUNT] = {
#define SN_ATTR(id, text, kind, domain, dflt) {text, SN_KIND_##kind, SN_DOMAIN_##domain, dflt},
#include "sinter/attrs.def"
#undef SN_ATTR
};

typedef struct enum_word {
  sn_enum_domain domain;
  const char *text;
} enum_word;

static const enum_word words[] = {
#define SN_ENUM(domain, id, text) {SN_DOMAIN_##domain, text},
#include "sinter/enums.def"
#undef SN_ENUM
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

/* The constants in ir.h must be the positions of the rows within their domain: rows of one domain stand together, so a
 * constant's position is its global row less the domain's first row. */
enum {
#define SN_ENUM(domain, id, text) ROW_##domain##_##id,
#include "sinter/enums.def"
#undef SN_ENUM
  ROW_COUNT
};
#define FIRST_DIRECTION ROW_DIRECTION_EQ
#define FIRST_COMPARE_TYPE ROW_COMPARE_TYPE_FLOAT
#define FIRST_PRECISION ROW_PRECISION_DEFAULT
#define FIRST_DOT_ALGORITHM ROW_DOT_ALGORITHM_UNSET
#define FIRST_CONV_KIND ROW_CONV_KIND_FPROP
#define FIRST_TRISTATE ROW_TRISTATE_UNKNOWN
#define FIRST_FFT_TYPE ROW_FFT_TYPE_FFT
#define FIRST_TRANSPOSE ROW_TRANSPOSE_NO_TRANSPOSE
#define FIRST_DISTRIBUTION ROW_DISTRIBUTION_UNIFORM
#define FIRST_RNG_ALGORITHM ROW_RNG_ALGORITHM_DEFAULT
#define FIRST_FUSION_KIND ROW_FUSION_KIND_LOOP
#define FIRST_PADDING_TYPE ROW_PADDING_TYPE_INVALID
#define FIRST_CUSTOM_CALL_SCHEDULE ROW_CUSTOM_CALL_SCHEDULE_NONE
#define FIRST_API_VERSION ROW_API_VERSION_UNSPECIFIED
#define SN_ENUM(domain, id, text) \
  _Static_assert((int)SN_##domain##_##id == (int)ROW_##domain##_##id - (int)FIRST_##domain, #domain "." #id " is out of order");
#include "sinter/enums.def"
#undef SN_ENUM

static size_t domain_first(sn_enum_domain d) {
  size_t i = 0;
  while (i < N_WORDS && words[i].domain != d) i++;
  return i;
}

int sn_enum_count(sn_enum_domain d) {
  size_t first = domain_first(d), n = 0;
  while (first + n < N_WORDS && words[first + n].domain == d) n++;
  return (int)n;
}

const char *sn_enum_text(sn_enum_domain d, int64_t value) {
  if (value < 0 || value >= sn_enum_count(d)) return NULL;
  return words[domain_first(d) + (size_t)value].text;
}

static bool same_text(const char *row, const char *text, size_t n) { return strncmp(row, text, n) == 0 && row[n] == '\0'; }

bool sn_enum_from_text(sn_enum_domain d, const char *text, size_t n, int64_t *out) {
  size_t first = domain_first(d);
  for (size_t i = first; i < N_WORDS && words[i].domain == d; i++) {
    if (!same_text(words[i].text, text, n)) continue;
    *out = (int64_t)(i - first);
    return true;
  }
  return false;
}

bool sn_opcode_from_text(const char *text, size_t n, sn_opcode *out) {
  for (int i = 0; i < SN_OP_COUNT; i++) {
    if (sn_ops[i].text[0] != text[0] || !same_text(sn_ops[i].text, text, n)) continue;
    *out = (sn_opcode)i;
    return true;
  }
  return false;
}

bool sn_op_takes(sn_opcode op, sn_attr_id id, bool *must) {
  for (const uint16_t *a = sn_ops[op].attrs; *a != SN_ATTR_END; a++) {
    if ((sn_attr_id)(*a & ~SN_ATTR_MUST) != id) continue;
    if (must) *must = (*a & SN_ATTR_MUST) != 0;
    return true;
  }
  return false;
}
