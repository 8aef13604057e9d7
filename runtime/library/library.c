/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The table of calls, and what they record as text. */
#include "sinter/library.h"

#include <string.h>

static const struct {
  const char *target, *library;
} rows[SN_LIBRARY_COUNT] = {
#define SN_LIBRARY_CALL(id, target, library, text) {target, library},
#include "sinter/library.def"
#undef SN_LIBRARY_CALL
};

const char *sn_library_target(sn_library_call c) { return rows[c].target; }

const char *sn_library_name(sn_library_call c) { return rows[c].library; }

sn_library_call sn_library_find(const char *target) {
  for (int c = 0; target && c < SN_LIBRARY_COUNT; c++) {
    if (strcmp(rows[c].target, target) == 0) return (sn_library_call)c;
  }
  return SN_LIBRARY_COUNT;
}

/* ---- products ---- */

void sn_library_product_print(sn_str *to, const sn_library_product *p) {
  sn_str_printf(to, "batch=%lld m=%lld n=%lld k=%lld lhs=%s rhs=%s operand=%s result=%s%s workspace=%lld", (long long)p->batch, (long long)p->m, (long long)p->n, (long long)p->k,
                p->lhs_along_k ? "mk" : "km", p->rhs_along_k ? "nk" : "kn", sn_type_text(p->operand), sn_type_text(p->result), p->tf32 ? " tf32" : "", (long long)p->workspace);
}

static bool take(const char **at, const char *what) {
  size_t n = strlen(what);
  if (strncmp(*at, what, n) != 0) return false;
  *at += n;
  return true;
}

static bool number(const char **at, const char *name, int64_t least, int64_t *out) {
  if (!take(at, name) || **at < '0' || **at > '9') return false;
  for (*out = 0; **at >= '0' && **at <= '9'; (*at)++) {
    if (*out > INT32_MAX) return false;
    *out = *out * 10 + (**at - '0');
  }
  return *out >= least && *out <= INT32_MAX;
}

static bool type(const char **at, const char *name, sn_type *out) {
  static const sn_type types[] = {SN_TYPE_F32, SN_TYPE_BF16, SN_TYPE_F16};
  if (!take(at, name)) return false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    *out = types[i];
    if (take(at, sn_type_text(types[i]))) return true;
  }
  return false;
}

bool sn_library_product_parse(const char *text, sn_library_product *p) {
  const char *at = text;
  memset(p, 0, sizeof *p);
  if (!at || !number(&at, "batch=", 1, &p->batch) || !number(&at, " m=", 1, &p->m) || !number(&at, " n=", 1, &p->n) || !number(&at, " k=", 1, &p->k)) return false;
  p->lhs_along_k = take(&at, " lhs=mk");
  if (!p->lhs_along_k && !take(&at, " lhs=km")) return false;
  p->rhs_along_k = take(&at, " rhs=nk");
  if (!p->rhs_along_k && !take(&at, " rhs=kn")) return false;
  if (!type(&at, " operand=", &p->operand) || !type(&at, " result=", &p->result)) return false;
  p->tf32 = take(&at, " tf32");
  if (!number(&at, " workspace=", 0, &p->workspace) || *at) return false;
  return (p->result == SN_TYPE_F32 || p->result == p->operand) && (!p->tf32 || p->operand == SN_TYPE_F32);
}
