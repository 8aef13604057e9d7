/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "text_internal.h"

static const char *sharding_word(int64_t kind) {
  switch ((sn_sharding_kind)kind) {
    case SN_SHARDING_MANUAL: return "manual";
    case SN_SHARDING_UNKNOWN: return "unknown";
    case SN_SHARDING_UNREDUCED: return "unreduced";
    default: return "replicated";
  }
}

static void print_tiled(sn_str *to, const sn_sharding *s) {
  sn_str_add(to, "devices=");
  sn_tx_print_ints(to, s->tile_dims, "[", ",", "]");
  if (s->iota) {
    sn_str_add(to, "<=");
    sn_tx_print_ints(to, s->reshape_dims, "[", ",", "]");
    if (s->transpose.n != 0) sn_tx_print_ints(to, s->transpose, "T(", ",", ")");
  } else {
    sn_tx_print_ints(to, s->devices, "", ",", "");
  }
  if (s->last_tile_replicated) sn_str_add(to, " last_tile_dim_replicate");
  if (s->last_tile_kinds.n == 0) return;
  sn_str_add(to, " last_tile_dims={");
  for (int64_t i = 0; i < s->last_tile_kinds.n; i++) {
    if (i != 0) sn_str_add(to, ", ");
    sn_str_add(to, sharding_word(s->last_tile_kinds.v[i]));
  }
  sn_str_char(to, '}');
}

static void print_one(sn_str *to, const sn_sharding *s) {
  sn_str_char(to, '{');
  if (s->kind == SN_SHARDING_TILED) {
    print_tiled(to, s);
  } else if (s->kind == SN_SHARDING_MAXIMAL) {
    sn_str_add(to, "maximal device=");
    sn_str_i64(to, s->device);
  } else if (s->kind == SN_SHARDING_NAMED) {
    sn_str_add(to, s->named);
  } else {
    sn_str_add(to, sharding_word((int64_t)s->kind));
  }
  if (s->group >= 0) {
    sn_str_add(to, s->group_is_like ? " shard_like " : " shard_as ");
    sn_str_i64(to, s->group);
  }
  if (s->metadata != NULL) {
    sn_str_add(to, " metadata=");
    sn_str_add(to, s->metadata);
  }
  sn_str_char(to, '}');
}

void sn_tx_print_sharding(sn_str *to, const sn_sharding *s, bool comments) {
  if (s->kind != SN_SHARDING_TUPLE) {
    print_one(to, s);
    return;
  }
  sn_str_char(to, '{');
  for (int64_t i = 0; i < s->n_elements; i++) {
    if (i != 0) sn_str_add(to, ", ");
    if (comments && i != 0 && i % 5 == 0) sn_tx_print_index(to, (uint32_t)i);
    print_one(to, s->elements[i]);
  }
  sn_str_char(to, '}');
}

void sn_hlo_print_sharding(sn_str *to, const sn_sharding *s) { sn_tx_print_sharding(to, s, true); }
