/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "sinter/array.h"

#include <string.h>

const sn_type_info sn_types[SN_TYPE_COUNT] = {
#define SN_TYPE(id, text, bits, bytes, cls, e, m, st, npy) \
  {text, bits, bytes, SN_CLASS_##cls, e, m, st, npy},
#include "sinter/types.def"
#undef SN_TYPE
};

bool sn_type_from_text(const char *text, size_t n, sn_type *out) {
  *out = SN_TYPE_INVALID;
  for (int t = 0; t < SN_TYPE_COUNT; t++) {
    const char *candidate = sn_types[t].text;
    /* strncmp stops at the candidate's end, so that the length needs a look only after a match. */
    if (strncmp(candidate, text, n) == 0 && candidate[n] == '\0') {
      *out = (sn_type)t;
      return true;
    }
  }
  return false;
}

sn_type sn_type_real_part(sn_type t) {
  switch (t) {
    case SN_TYPE_C64: return SN_TYPE_F32;
    case SN_TYPE_C128: return SN_TYPE_F64;
    default: return t;
  }
}

sn_type sn_type_complex_of(sn_type t) {
  switch (t) {
    case SN_TYPE_F32: return SN_TYPE_C64;
    case SN_TYPE_F64: return SN_TYPE_C128;
    default: return SN_TYPE_INVALID;
  }
}
