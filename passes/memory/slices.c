/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The plan as text: frontend_attributes={sinter.slice="offset:size,…"}, one entry a leaf of the result in the arena's bytes; `-` for a leaf that lives elsewhere (an
 * argument's, a result's or a constant's memory). A module that carries slices is planned as it says, so a plan can be read, edited and run. */
#include "../passes_internal.h"
#include "leaves.h"
#include "sinter/plan.h"

#include <stdlib.h>
#include <string.h>

bool sn_slice_read(const sn_instr *i, int leaf, int64_t *offset, int64_t *bytes) {
  const char *at = sn_instr_frontend(i, "sinter.slice");
  for (; at && leaf > 0; leaf--) {
    at = strchr(at, ',');
    if (at) at++;
  }
  if (!at || *at < '0' || *at > '9') return false;
  char *end;
  *offset = (int64_t)strtoll(at, &end, 10);
  if (*end != ':' || end[1] < '0' || end[1] > '9') return false;
  *bytes = (int64_t)strtoll(end + 1, &end, 10);
  return *end == ',' || *end == '\0';
}

static bool is_name(const sn_instr *i) {
  return i->op == SN_OP_PARAMETER || i->op == SN_OP_CONSTANT || i->op == SN_OP_TUPLE || i->op == SN_OP_GET_TUPLE_ELEMENT || sn_is_rename(i);
}

static sn_status write_slices(sn_pass_ctx *pc, sn_instr *i, const sn_plan_slice *s) {
  sn_str text = {0};
  bool any = false;
  for (int64_t leaf = 0; leaf < sn_shape_leaves(i->shape); leaf++) {
    bool arena = s[leaf].place == SN_PLACE_ARENA;
    any |= arena;
    if (leaf) sn_str_char(&text, ',');
    if (arena) sn_str_printf(&text, "%lld:%lld", (long long)s[leaf].offset, (long long)s[leaf].bytes);
    else sn_str_char(&text, '-');
  }
  sn_status st = text.failed ? SN_ERR_MEMORY : any ? sn_instr_set_frontend(i, "sinter.slice", text.data) : SN_OK;
  pc->changed |= any;
  sn_str_finish(&text);
  return st == SN_OK ? SN_OK : sn_out_of_memory(pc->diag, 64);
}

sn_status sn_pass_buffers(sn_pass_ctx *pc, sn_module *m) {
  sn_plan p;
  SN_TRY(sn_plan_make(pc->diag, pc->scratch, m, &p));
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      if (i->id < p.n_ids && p.slices[i->id] && !is_name(i)) SN_TRY(write_slices(pc, i, p.slices[i->id]));
    }
  }
  return SN_OK;
}
