/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A ring of slots, each one batch. Slot k holds the batch whose running number is k modulo the ring; batches are decoded whole by one background job
 * each and handed out in order, so what comes out depends on seed and epoch alone. */
#include <pthread.h>
#include <string.h>

#include "data_internal.h"
#include "sinter/random.h"

typedef enum slot_state { SLOT_EMPTY, SLOT_QUEUED, SLOT_READY } slot_state;

typedef struct slot {
  sn_loader *loader;
  slot_state state;
  int64_t epoch, batch;
  const uint32_t *order;   /* of its epoch: sn_loader.orders */
  sn_array *inputs, *labels;
  int64_t n;
  sn_status status;
  sn_diag *diag;           /* what decoding said, passed on by sn_loader_next */
  int64_t n_bad;
  int64_t *bad;            /* samples found damaged, in order */
} slot;

struct sn_loader {
  sn_dataset *set;
  sn_loader_options o;
  int64_t n_batches;
  int n_slots;
  slot *slots;
  int64_t epoch, batch;    /* handed out next */
  int64_t fill_epoch, fill_batch, n_ahead; /* queued next, and how many are under way */
  uint32_t *orders[2];     /* permutations by epoch parity: at most two epochs are under way */
  int64_t order_epoch[2];
  bool *known_bad;         /* a sample: its damage was told */
  int64_t n_skipped;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool has_lock;
};

void sn_loader_options_init(sn_loader_options *o) { *o = (sn_loader_options){.struct_size = sizeof *o, .batch = 32, .ahead = 3}; }

/* ---- decoding one batch ------------------------------------------------------------------------------------------- */

static void mirror(float *pixels, const sn_dataset_info *i, sn_image_layout layout) {
  int64_t inner = layout == SN_IMAGE_NHWC ? i->channels : 1, rows = layout == SN_IMAGE_NHWC ? i->height : i->height * i->channels;
  for (int64_t r = 0; r < rows; r++) {
    float *row = pixels + r * i->width * inner;
    for (int64_t x = 0; x < i->width / 2; x++)
      for (int64_t c = 0; c < inner; c++) {
        float *a = row + x * inner + c, *b = row + (i->width - 1 - x) * inner + c, swap = *a;
        *a = *b;
        *b = swap;
      }
  }
}

/* The coin belongs to sample and epoch, not to its place in a batch. */
static bool flips(const sn_loader *l, int64_t epoch, int64_t sample) {
  if (!l->o.flip) return false;
  sn_random r;
  sn_random_init(&r, l->o.seed, sn_random_stream("flip", (uint64_t)epoch));
  r.counter[0] = (uint32_t)sample;
  return sn_random_u32(&r) & 1;
}

/* Tokens are in memory already. */
static void take_tokens(slot *s) {
  const sn_loader *l = s->loader;
  const sn_dataset *set = l->set;
  int32_t *ids = sn_array_data(s->inputs), *labels = sn_array_data(s->labels);
  int64_t length = set->info.length, each = set->token_labels ? length : 1;
  for (int64_t k = 0; k < l->o.batch; k++, ids += length, labels += each) {
    int64_t p = s->batch * l->o.batch + k;
    if (p >= set->info.n) {
      memset(ids, 0, (size_t)length * sizeof *ids);
      for (int64_t i = 0; i < each; i++) labels[i] = -1;
      continue;
    }
    int64_t sample = s->order ? s->order[p] : p;
    set->kind->tokens(set, sample, ids, set->token_labels ? labels : NULL);
    if (!set->token_labels) *labels = set->labels[sample];
    s->n++;
  }
}

/* Position p of the epoch's order; with drop_last a damaged sample's place is taken by the next ones. SN_ERR_CORRUPT: none was good. */
static sn_status decode_position(slot *s, int64_t p, float *pixels, int32_t *label) {
  const sn_loader *l = s->loader;
  const sn_dataset_info *info = &l->set->info;
  int64_t tries = l->o.drop_last ? (l->o.batch + 1) / 2 : 1;
  for (int64_t t = 0; t < tries; t++) {
    int64_t sample = s->order ? s->order[(p + t) % info->n] : (p + t) % info->n;
    sn_status status = sn_dataset_sample(s->diag, l->set, sample, l->o.layout, pixels);
    if (status == SN_OK) {
      if (flips(l, s->epoch, sample)) mirror(pixels, info, l->o.layout);
      *label = l->set->labels[sample];
      return SN_OK;
    }
    if (status != SN_ERR_CORRUPT && status != SN_ERR_UNSUPPORTED) return status;
    if (s->n_bad < 2 * l->o.batch) s->bad[s->n_bad++] = sample;
  }
  return SN_ERR_CORRUPT;
}

static sn_status allocate_batch(slot *s) {
  const sn_loader *l = s->loader;
  const sn_dataset_info *i = &l->set->info;
  int64_t nchw[] = {l->o.batch, i->channels, i->height, i->width}, nhwc[] = {l->o.batch, i->height, i->width, i->channels}, tokens[] = {l->o.batch, i->length};
  sn_arena *a;
  SN_TRY(sn_arena_create(&a));
  const sn_shape *inputs = i->length ? sn_shape_array(a, SN_TYPE_S32, 2, tokens) : sn_shape_array(a, SN_TYPE_F32, 4, l->o.layout == SN_IMAGE_NHWC ? nhwc : nchw),
                 *labels = sn_shape_array(a, SN_TYPE_S32, l->set->token_labels ? 2 : 1, tokens);
  sn_status status = inputs && labels ? sn_array_create(inputs, &s->inputs) : SN_ERR_MEMORY;
  if (status == SN_OK) status = sn_array_create(labels, &s->labels);
  sn_arena_destroy(a);
  return status;
}

static sn_status decode_batch(slot *s) {
  const sn_loader *l = s->loader;
  const sn_dataset_info *i = &l->set->info;
  size_t each = (size_t)(i->channels * i->height * i->width);
  SN_TRY(allocate_batch(s));
  if (i->length) return take_tokens(s), SN_OK;
  float *pixels = sn_array_data(s->inputs);
  int32_t *labels = sn_array_data(s->labels);
  for (int64_t k = 0; k < l->o.batch; k++) {
    int64_t p = s->batch * l->o.batch + k;
    bool missing = p >= i->n;
    if (!missing) {
      sn_status status = decode_position(s, p, pixels + (size_t)k * each, &labels[k]);
      if (status != SN_OK && (status != SN_ERR_CORRUPT || l->o.drop_last)) return status;
      missing = status != SN_OK;
    }
    if (missing) memset(pixels + (size_t)k * each, 0, each * sizeof *pixels);
    if (missing) labels[k] = -1;
    s->n += !missing;
  }
  return SN_OK;
}

static void decode_job(void *ctx) {
  slot *s = ctx;
  sn_loader *l = s->loader;
  sn_status status = decode_batch(s);
  pthread_mutex_lock(&l->lock);
  s->status = status;
  s->state = SLOT_READY;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
}

/* ---- the ring ------------------------------------------------------------------------------------------------------- */

static void slot_clear(slot *s) {
  sn_array_release(s->inputs);
  sn_array_release(s->labels);
  s->inputs = s->labels = NULL;
  s->state = SLOT_EMPTY;
  s->n = s->n_bad = 0;
  s->status = SN_OK;
  sn_diag_clear(s->diag);
}

static const uint32_t *order_of(sn_loader *l, int64_t epoch) {
  if (!l->o.shuffle) return NULL;
  int k = (int)(epoch & 1);
  if (l->order_epoch[k] != epoch) {
    sn_random r;
    sn_random_init(&r, l->o.seed, sn_random_stream("shuffle", (uint64_t)epoch));
    sn_random_shuffle(&r, l->orders[k], (size_t)l->set->info.n);
    l->order_epoch[k] = epoch;
  }
  return l->orders[k];
}

/* Queues batches until the ring is full. Only up to the end of the next epoch, so that two orders suffice. */
static void fill_ring(sn_loader *l) {
  while (l->n_ahead < l->n_slots && l->fill_epoch <= l->epoch + 1) {
    slot *s = &l->slots[(l->fill_epoch * l->n_batches + l->fill_batch) % l->n_slots];
    slot_clear(s);
    s->epoch = l->fill_epoch;
    s->batch = l->fill_batch;
    s->order = order_of(l, s->epoch);
    s->state = SLOT_QUEUED;
    l->n_ahead++;
    if (++l->fill_batch == l->n_batches) {
      l->fill_batch = 0;
      l->fill_epoch++;
    }
    if (!l->o.pool || sn_pool_background(l->o.pool, decode_job, s) != SN_OK) decode_job(s);
  }
}

static void wait_ready(sn_loader *l, slot *s) {
  pthread_mutex_lock(&l->lock);
  while (s->state == SLOT_QUEUED) pthread_cond_wait(&l->changed, &l->lock);
  pthread_mutex_unlock(&l->lock);
}

static void drain(sn_loader *l) {
  for (int i = 0; l->slots && i < l->n_slots; i++) {
    wait_ready(l, &l->slots[i]);
    slot_clear(&l->slots[i]);
  }
  l->n_ahead = 0;
}

sn_status sn_loader_seek(sn_loader *l, int64_t epoch, int64_t batch) {
  if (epoch < 0 || batch < 0 || batch > l->n_batches) return SN_ERR_USAGE;
  drain(l);
  l->epoch = l->fill_epoch = epoch;
  l->batch = l->fill_batch = batch;
  if (batch == l->n_batches) {
    l->fill_epoch++;
    l->fill_batch = 0;
  }
  return SN_OK;
}

/* ---- lifetime ------------------------------------------------------------------------------------------------------ */

static bool allocate_loader(sn_loader *l) {
  size_t n = (size_t)l->set->info.n;
  l->slots = sn_alloc_zero((size_t)l->n_slots, sizeof *l->slots);
  l->known_bad = sn_alloc_zero(n, sizeof *l->known_bad);
  bool ok = l->slots && l->known_bad;
  for (int k = 0; k < 2 && l->o.shuffle; k++) ok = (l->orders[k] = sn_alloc_zero(n, sizeof **l->orders)) && ok;
  for (int i = 0; ok && i < l->n_slots; i++) {
    l->slots[i].loader = l;
    l->slots[i].bad = sn_alloc_zero((size_t)(2 * l->o.batch), sizeof *l->slots[i].bad);
    ok = l->slots[i].bad && sn_diag_create(&l->slots[i].diag) == SN_OK;
  }
  return ok;
}

static sn_status check_loader(sn_diag *d, const sn_dataset *s, const sn_loader_options *o) {
  if (o->batch < 1 || o->batch > 1 << 24) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "a batch of %lld", (long long)o->batch);
  if (s->info.n >= o->batch || !o->drop_last) return SN_OK;
  sn_status e = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "a batch of %lld, but the set has %lld samples only", (long long)o->batch, (long long)s->info.n);
  sn_hint(d, "take a smaller batch");
  return e;
}

sn_status sn_loader_create(sn_diag *d, sn_dataset *set, const sn_loader_options *o, sn_loader **out) {
  *out = NULL;
  SN_TRY(check_loader(d, set, o));
  sn_loader *l = sn_alloc_zero(1, sizeof *l);
  if (!l) return sn_out_of_memory(d, sizeof *l);
  l->set = set;
  l->o = *o;
  l->n_slots = o->pool ? (o->ahead > 0 ? o->ahead : 1) : 1;
  l->n_batches = o->drop_last ? set->info.n / o->batch : (set->info.n + o->batch - 1) / o->batch;
  l->order_epoch[0] = l->order_epoch[1] = -1;
  bool has_mutex = pthread_mutex_init(&l->lock, NULL) == 0;
  l->has_lock = has_mutex && pthread_cond_init(&l->changed, NULL) == 0;
  if (has_mutex && !l->has_lock) pthread_mutex_destroy(&l->lock);
  if (!l->has_lock || !allocate_loader(l)) {
    sn_loader_destroy(l);
    return sn_out_of_memory(d, (size_t)set->info.n);
  }
  *out = l;
  return SN_OK;
}

void sn_loader_destroy(sn_loader *l) {
  if (!l) return;
  if (l->has_lock) drain(l);
  for (int i = 0; l->slots && i < l->n_slots; i++) {
    sn_diag_destroy(l->slots[i].diag);
    sn_free(l->slots[i].bad);
  }
  sn_free(l->slots);
  sn_free(l->known_bad);
  sn_free(l->orders[0]);
  sn_free(l->orders[1]);
  if (l->has_lock) {
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
  }
  sn_free(l);
}

int64_t sn_loader_batches(const sn_loader *l) { return l->n_batches; }

int64_t sn_loader_skipped(const sn_loader *l) { return l->n_skipped; }

/* Damage is told once a sample; anything else that went wrong is told as it was. */
static void tell_damage(sn_diag *d, sn_loader *l, const slot *s) {
  for (int64_t i = 0; i < s->n_bad; i++) {
    if (l->known_bad[s->bad[i]]) continue;
    l->known_bad[s->bad[i]] = true;
    l->n_skipped++;
    const sn_diagnostic *why = (size_t)i < sn_diag_stored(s->diag) ? sn_diag_get(s->diag, (size_t)i) : NULL;
    if (why) sn_warn(d, why->loc, "%s; skipped", why->message);
  }
}

static sn_status tell_failure(sn_diag *d, const slot *s) {
  if (s->status == SN_ERR_CORRUPT) {
    sn_status e = sn_error(d, SN_NOWHERE, SN_ERR_CORRUPT, "too many damaged images in a row");
    sn_hint(d, "is this a folder of images at all?");
    return e;
  }
  size_t n = sn_diag_stored(s->diag);
  const sn_diagnostic *why = n ? sn_diag_get(s->diag, n - 1) : NULL;
  return why ? sn_error(d, why->loc, s->status, "%s", why->message) : sn_error(d, SN_NOWHERE, s->status, "%s", sn_status_text(s->status));
}

sn_status sn_loader_next(sn_diag *d, sn_loader *l, sn_batch *out) {
  *out = (sn_batch){0};
  if (l->batch == l->n_batches) { /* the epoch is over; the next call begins the next one */
    l->batch = 0;
    l->epoch++;
    return SN_OK;
  }
  fill_ring(l);
  slot *s = &l->slots[(l->epoch * l->n_batches + l->batch) % l->n_slots];
  wait_ready(l, s);
  tell_damage(d, l, s);
  sn_status status = s->status == SN_OK ? SN_OK : tell_failure(d, s);
  if (status == SN_OK) {
    *out = (sn_batch){s->inputs, s->labels, s->n};
    s->inputs = s->labels = NULL;
  }
  slot_clear(s);
  l->n_ahead--;
  l->batch++;
  if (status == SN_OK) fill_ring(l);
  return status;
}
