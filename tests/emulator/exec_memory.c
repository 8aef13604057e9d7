/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loads, stores, atomics: every address is checked, every request counted. */
#include <stdatomic.h>

#include "exec.h"

/* ---- addresses ---- */

void emu_addresses(const emu_warp *w, const emu_ins *i, uint32_t place, int64_t offset, uint64_t *to) {
  if (place == EMU_NOWHERE) {
    for (int l = 0; l < EMU_LANES; l++) to[l] = (uint64_t)offset;
  } else if (i->wide_address) {
    const uint64_t *a = EMU_AT(const uint64_t, place);
    for (int l = 0; l < EMU_LANES; l++) to[l] = a[l] + (uint64_t)offset;
  } else {
    const uint32_t *a = EMU_AT(const uint32_t, place);
    for (int l = 0; l < EMU_LANES; l++) to[l] = (uint32_t)(a[l] + (uint32_t)offset);
  }
}

/* Which space a generic address lies in; *at becomes the address there. */
static emu_space window(uint64_t *at) {
  if (*at - EMU_SHARED_WINDOW < EMU_WINDOW_BYTES) {
    *at -= EMU_SHARED_WINDOW;
    return EMU_SHARED;
  }
  if (*at - EMU_LOCAL_WINDOW < EMU_WINDOW_BYTES) {
    *at -= EMU_LOCAL_WINDOW;
    return EMU_LOCAL;
  }
  return EMU_GLOBAL;
}

static const char *const space_names[] = {"generic", "global", "shared", "local", "const", "param", "param"};

static uint8_t *resolve_global(emu_warp *w, const emu_ins *i, int lane, uint64_t at, uint32_t bytes, bool writes) {
  char where[200];
  uint8_t *host = emu_memory_at(at, bytes), *shadow;
  if (!host) {
    emu_memory_explain(at, where, sizeof where);
    emu_fail(w, i, lane, EMU_ERROR_ILLEGAL_ADDRESS, "%u bytes of global memory at 0x%llx: %s", bytes, (unsigned long long)at, where);
    return NULL;
  }
  if ((shadow = emu_memory_shadow(host))) {
    if (writes) memset(shadow, 1, bytes);
    else if (memchr(shadow, 0, bytes)) emu_fail(w, i, lane, EMU_ERROR_ASSERT, "reads %u bytes of global memory at 0x%llx that nothing has written", bytes, (unsigned long long)at);
  }
  return host;
}

static uint8_t *resolve_shared(emu_warp *w, const emu_ins *i, int lane, uint64_t at, uint32_t bytes, bool writes) {
  emu_block *b = w->block;
  bool is_static = at + bytes <= b->static_bytes, is_dynamic = at >= EMU_DYNAMIC_AT && at + bytes <= EMU_DYNAMIC_AT + (uint64_t)b->dynamic_bytes;
  if (!is_static && !is_dynamic) {
    emu_fail(w, i, lane, EMU_ERROR_ILLEGAL_ADDRESS, "%u bytes of %s shared memory at %llu, of %u", bytes, at >= EMU_DYNAMIC_AT ? "dynamic" : "static",
             (unsigned long long)(at >= EMU_DYNAMIC_AT ? at - EMU_DYNAMIC_AT : at), at >= EMU_DYNAMIC_AT ? b->dynamic_bytes : b->static_bytes);
    return NULL;
  }
  if (b->shared_written) {
    if (writes) memset(b->shared_written + at, 1, bytes);
    else if (memchr(b->shared_written + at, 0, bytes)) emu_fail(w, i, lane, EMU_ERROR_ASSERT, "reads %u bytes of shared memory at %llu that nothing has written", bytes, (unsigned long long)at);
  }
  if (b->grains) emu_shared_touch(w, i, lane, (uint32_t)at, bytes, writes);
  return b->shared + at;
}

uint8_t *emu_resolve(emu_warp *w, const emu_ins *i, int lane, emu_space space, uint64_t at, uint32_t bytes, bool writes) {
  if (space == EMU_GENERIC) space = window(&at);
  if (at % bytes != 0) {
    emu_fail(w, i, lane, EMU_ERROR_MISALIGNED, "%u bytes of %s memory at 0x%llx, which is no multiple", bytes, space_names[space], (unsigned long long)at);
    return NULL;
  }
  switch (space) {
    case EMU_SHARED: return resolve_shared(w, i, lane, at, bytes, writes);
    case EMU_FRAME_PARAM: at += w->frame; /* fall through */
    case EMU_LOCAL:
      if (at > w->local_bytes || bytes > w->local_bytes - at) {
        emu_fail(w, i, lane, EMU_ERROR_ILLEGAL_ADDRESS, "%u bytes of local memory at %llu, of %u", bytes, (unsigned long long)at, w->local_bytes);
        return NULL;
      }
      return w->local + (size_t)lane * w->local_bytes + at;
    case EMU_PARAM:
      if (at + bytes > w->f->param_bytes) {
        emu_fail(w, i, lane, EMU_ERROR_ILLEGAL_ADDRESS, "%u bytes of parameters at %llu, of %u", bytes, (unsigned long long)at, w->f->param_bytes);
        return NULL;
      }
      return (uint8_t *)w->block->launch->params + at;
    default: return resolve_global(w, i, lane, at, bytes, writes);
  }
}

/* ---- counting ---- */

static uint32_t count_distinct(const uint64_t *v, uint32_t n) {
  uint32_t distinct = 1;
  bool rising = true;
  for (uint32_t k = 1; k < n; k++) rising &= v[k] > v[k - 1];
  if (rising) return n;
  for (uint32_t k = 1; k < n; k++) {
    uint32_t j = k;
    while (j > 0 && v[j - 1] != v[k]) j--;
    distinct += j == 0;
  }
  return distinct;
}

void emu_count_global(emu_warp *w, const uint64_t *at, uint32_t mask, uint32_t bytes, bool writes) {
  emu_counters *c = &w->block->counters;
  uint64_t active[EMU_LANES], sectors[2 * EMU_LANES];
  uint32_t n = 0, n_sectors = 0;
  EMU_FOR_LANES(l, mask) {
    uint64_t first = at[l] >> 5, last = (at[l] + bytes - 1) >> 5;
    active[n++] = at[l];
    for (uint64_t s = first; s <= last && n_sectors < 2 * EMU_LANES; s++) {
      uint32_t k = n_sectors;
      while (k > 0 && sectors[k - 1] != s) k--;
      if (k == 0) sectors[n_sectors++] = s;
    }
  }
  uint32_t ideal = (count_distinct(active, n) * bytes + 31) / 32;
  if (writes) {
    c->global_stores++;
    c->global_store_sectors += n_sectors;
    c->global_store_ideal += ideal;
    c->global_store_bytes += (uint64_t)n * bytes;
  } else {
    c->global_loads++;
    c->global_load_sectors += n_sectors;
    c->global_load_ideal += ideal;
    c->global_load_bytes += (uint64_t)n * bytes;
  }
}

/* Lanes that go together: 32 of up to 4 bytes, 16 of 8, 8 of 16. A bank gives one word a pass; the same word serves all. */
void emu_count_shared(emu_warp *w, const uint64_t *at, uint32_t mask, uint32_t bytes) {
  emu_counters *c = &w->block->counters;
  uint32_t group = bytes <= 4 ? 32 : 128 / bytes, each = bytes <= 4 ? 1 : bytes / 4;
  c->shared_requests++;
  for (uint32_t first = 0; first < EMU_LANES; first += group) {
    uint32_t lanes = mask & (group == 32 ? EMU_FULL : ((1u << group) - 1) << first), most = 0, n = 0;
    uint64_t words[EMU_LANES];
    uint8_t in_bank[32] = {0};
    if (!lanes) continue;
    EMU_FOR_LANES(l, lanes) {
      for (uint32_t e = 0; e < each; e++) {
        uint64_t word = at[l] / 4 + e;
        uint32_t k = n;
        while (k > 0 && words[k - 1] != word) k--;
        if (k > 0) continue;
        words[n++] = word;
        uint32_t in = ++in_bank[word % 32];
        most = in > most ? in : most;
      }
    }
    c->shared_wavefronts += most;
    c->shared_ideal += (n + 31) / 32;
  }
}

static void count(emu_warp *w, const emu_ins *i, const uint64_t *at, uint32_t mask, uint32_t bytes, bool writes) {
  emu_space space = (emu_space)i->space;
  uint64_t here[EMU_LANES];
  if (space == EMU_GENERIC) {
    memcpy(here, at, sizeof here);
    space = window(&here[__builtin_ctz(mask)]);
    EMU_FOR_LANES(l, mask) {
      here[l] = at[l];
      window(&here[l]);
    }
    at = here;
  }
  if (space == EMU_GLOBAL) emu_count_global(w, at, mask, bytes, writes);
  else if (space == EMU_SHARED) emu_count_shared(w, at, mask, bytes);
  else if (space == EMU_LOCAL) w->block->counters.local_requests++;
}

/* ---- loads and stores ---- */

/* Where each lane's access lies in host memory; false: one of them faulted. */
static bool resolve_all(emu_warp *w, const emu_ins *i, uint32_t mask, uint32_t bytes, bool writes, uint64_t *at, uint8_t **host) {
  emu_addresses(w, i, i->s[0], i->offset, at);
  emu_space space = (emu_space)i->space;
  if (space == EMU_GLOBAL && mask == EMU_FULL) { /* all in one allocation: one look at the table */
    uint64_t low = at[0], high = at[0], bits = 0;
    for (int l = 0; l < EMU_LANES; l++) {
      low = at[l] < low ? at[l] : low;
      high = at[l] > high ? at[l] : high;
      bits |= at[l];
    }
    uint8_t *base = bits % bytes == 0 ? emu_memory_at(low, high - low + bytes) : NULL;
    if (base && !emu_memory_shadow(base)) {
      for (int l = 0; l < EMU_LANES; l++) host[l] = base + (at[l] - low);
      return true;
    }
  }
  EMU_FOR_LANES(l, mask) {
    if (!(host[l] = emu_resolve(w, i, (int)l, space, at[l], bytes, writes))) return false;
  }
  return !w->block->fault.code;
}

#define MOVE(T)                                           \
  EMU_FOR_LANES(l, mask) {                                \
    if (writes) memcpy(host[l] + at, (T *)lanes + l, sizeof(T)); \
    else memcpy((T *)lanes + l, host[l] + at, sizeof(T)); \
  }                                                       \
  return

/* One element of each lane between memory and a register of the same width, or a narrower one. */
static void move(void *lanes, uint32_t width, uint8_t *const *host, uint32_t at, emu_type t, uint32_t mask, bool writes) {
  uint32_t bytes = emu_types[t].bytes;
  if (width == bytes && width == 4) { MOVE(uint32_t); }
  if (width == bytes && width == 8) { MOVE(uint64_t); }
  if (width == bytes && width == 2) { MOVE(uint16_t); }
  bool is_signed = t >= EMU_S8 && t <= EMU_S64;
  EMU_FOR_LANES(l, mask) {
    uint8_t *lane = (uint8_t *)lanes + (size_t)l * width;
    if (writes) {
      memcpy(host[l] + at, lane, bytes < width ? bytes : width);
      continue;
    }
    uint64_t v = 0;
    memcpy(&v, host[l] + at, bytes);
    if (is_signed && bytes < 8) v = (uint64_t)((int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes));
    memcpy(lane, &v, width);
  }
}

/* All lanes in a row: one copy. */
static bool is_row(const uint64_t *at, uint32_t bytes) {
  bool row = true;
  for (uint32_t l = 1; l < EMU_LANES; l++) row &= at[l] == at[0] + (uint64_t)l * bytes;
  return row;
}

static void transfer(emu_warp *w, const emu_ins *i, uint32_t mask, bool writes) {
  uint64_t at[EMU_LANES];
  uint8_t *host[EMU_LANES];
  uint32_t each = emu_types[i->type].bytes, bytes = each * i->n;
  if (!resolve_all(w, i, mask, bytes, writes, at, host)) return;
  count(w, i, at, mask, bytes, writes);
  if (i->n == 1 && mask == EMU_FULL && i->space == EMU_GLOBAL && i->width == each && is_row(at, bytes)) {
    if (writes) memcpy(host[0], emu_at(w, i->s[1]), (size_t)bytes * EMU_LANES);
    else memcpy(emu_at(w, i->d), host[0], (size_t)bytes * EMU_LANES);
    return;
  }
  for (uint32_t k = 0; k < i->n; k++) {
    uint32_t place = i->n > 1 ? i->list[k] : writes ? i->s[1] : i->d;
    if (place != EMU_NOWHERE) move(emu_at(w, place), i->width, host, k * each, (emu_type)i->type, mask, writes);
  }
}

/* A parameter of the kernel is the same for all lanes. */
static void load_param(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const uint8_t *from = emu_resolve(w, i, 0, EMU_PARAM, (uint64_t)i->offset, emu_types[i->type].bytes, false);
  if (!from) return;
  uint8_t *host[EMU_LANES];
  for (int l = 0; l < EMU_LANES; l++) host[l] = (uint8_t *)from;
  move(emu_at(w, i->d), i->width, host, 0, (emu_type)i->type, mask, false);
}

void emu_load(emu_warp *w, const emu_ins *i, uint32_t mask) {
  if (i->space == EMU_PARAM && i->n == 1 && i->s[0] == EMU_NOWHERE) load_param(w, i, mask);
  else transfer(w, i, mask, false);
}

void emu_store(emu_warp *w, const emu_ins *i, uint32_t mask) { transfer(w, i, mask, true); }

/* ---- cvta ---- */

void emu_address(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint64_t window_at = i->space == EMU_SHARED ? EMU_SHARED_WINDOW : i->space == EMU_LOCAL ? EMU_LOCAL_WINDOW : 0;
  const uint64_t *a = EMU_AT(const uint64_t, i->s[0]);
  uint64_t *d = EMU_AT(uint64_t, i->d);
  EMU_FOR_LANES(l, mask) d[l] = i->flags & EMU_F(TO) ? a[l] - window_at : a[l] + window_at;
}

void emu_local_address(emu_warp *w, const emu_ins *i, uint32_t mask) {
  EMU_FOR_LANES(l, mask) {
    if (i->width == 8) EMU_AT(uint64_t, i->d)[l] = w->frame + (uint64_t)i->offset;
    else EMU_AT(uint32_t, i->d)[l] = w->frame + (uint32_t)i->offset;
  }
}

/* ---- atomics ---- */

static float as_f32(uint64_t v) {
  float f;
  memcpy(&f, &v, 4);
  return f;
}
static double as_f64(uint64_t v) {
  double f;
  memcpy(&f, &v, 8);
  return f;
}

static uint64_t float_sum(emu_type t, uint64_t a, uint64_t b) {
  uint64_t r = 0;
  if (t == EMU_F64) {
    double s = as_f64(a) + as_f64(b);
    memcpy(&r, &s, 8);
  } else if (t == EMU_F32) {
    float s = as_f32(a) + as_f32(b);
    memcpy(&r, &s, 4);
  } else if (t == EMU_F16) {
    r = emu_f32_to_half(emu_half_to_f32((uint16_t)a) + emu_half_to_f32((uint16_t)b));
  } else if (t == EMU_BF16) {
    r = emu_f32_to_bfloat(emu_bfloat_to_f32((uint16_t)a) + emu_bfloat_to_f32((uint16_t)b));
  } else {
    emu_type half = t == EMU_F16X2 ? EMU_F16 : EMU_BF16;
    r = float_sum(half, a & 0xffff, b & 0xffff) | float_sum(half, a >> 16 & 0xffff, b >> 16 & 0xffff) << 16;
  }
  return r;
}

static uint64_t combine(const emu_ins *i, uint64_t old, uint64_t b, uint64_t c) {
  emu_type t = (emu_type)i->type;
  bool narrow = emu_types[t].bytes == 4, is_signed = t >= EMU_S8 && t <= EMU_S64, is_float = t >= EMU_F16 && t <= EMU_F64;
  bool less = !is_signed ? old < b : narrow ? (int32_t)old < (int32_t)b : (int64_t)old < (int64_t)b;
  switch (i->sub) {
    case EMU_ATOM_ADD: return is_float ? float_sum(t, old, b) : old + b;
    case EMU_ATOM_MIN: return less ? old : b;
    case EMU_ATOM_MAX: return less ? b : old;
    case EMU_ATOM_AND: return old & b;
    case EMU_ATOM_OR: return old | b;
    case EMU_ATOM_XOR: return old ^ b;
    case EMU_ATOM_EXCH: return b;
    case EMU_ATOM_CAS: return old == b ? c : old;
    case EMU_ATOM_INC: return old >= b ? 0 : old + 1;
    default: return old == 0 || old > b ? b : old - 1;
  }
}

#define EXCHANGE(T)                                                                                                                    \
  static uint64_t exchange_##T(const emu_ins *i, uint8_t *host, uint64_t b, uint64_t c) {                                               \
    _Atomic(T) *at = (_Atomic(T) *)(void *)host;                                                                                        \
    T old = atomic_load(at);                                                                                                            \
    while (!atomic_compare_exchange_weak(at, &old, (T)combine(i, old, b, c))) continue;                                                 \
    return old;                                                                                                                         \
  }
EXCHANGE(uint16_t)
EXCHANGE(uint32_t)
EXCHANGE(uint64_t)

static uint64_t lane_value(const emu_warp *w, uint32_t place, uint32_t l, uint32_t bytes) {
  uint64_t v = 0;
  if (place != EMU_NOWHERE) memcpy(&v, (uint8_t *)emu_at(w, place) + (size_t)l * bytes, bytes);
  return v;
}

void emu_atomic(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint64_t at[EMU_LANES];
  uint32_t bytes = emu_types[i->type].bytes;
  emu_addresses(w, i, i->s[0], i->offset, at);
  w->block->counters.atomics++;
  emu_grain *grains = w->block->grains;
  w->block->grains = NULL; /* atomics do not race with each other */
  EMU_FOR_LANES(l, mask) {
    uint8_t *host = emu_resolve(w, i, (int)l, (emu_space)i->space, at[l], bytes, false);
    if (!host) break;
    uint64_t b = lane_value(w, i->s[1], l, bytes), c = lane_value(w, i->s[2], l, bytes);
    uint64_t old = bytes == 8 ? exchange_uint64_t(i, host, b, c) : bytes == 4 ? exchange_uint32_t(i, host, b, c) : exchange_uint16_t(i, host, b, c);
    if (i->d != EMU_NOWHERE) memcpy((uint8_t *)emu_at(w, i->d) + (size_t)l * bytes, &old, bytes);
  }
  w->block->grains = grains;
}

/* ---- mov between a register and its parts ---- */

void emu_pack(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint32_t whole = i->width, part = whole / i->n;
  uint8_t *d = emu_at(w, i->d);
  EMU_FOR_LANES(l, mask) {
    uint8_t value[16];
    for (uint32_t k = 0; k < i->n; k++) memcpy(value + k * part, (uint8_t *)emu_at(w, i->list[k]) + l * part, part);
    memcpy(d + l * whole, value, whole);
  }
}

void emu_unpack(emu_warp *w, const emu_ins *i, uint32_t mask) {
  uint32_t whole = i->width, part = whole / i->n;
  EMU_FOR_LANES(l, mask) {
    uint8_t value[16];
    memcpy(value, (uint8_t *)emu_at(w, i->s[0]) + l * whole, whole);
    for (uint32_t k = 0; k < i->n; k++) {
      if (i->list[k] != EMU_NOWHERE) memcpy((uint8_t *)emu_at(w, i->list[k]) + l * part, value + k * part, part);
    }
  }
}
