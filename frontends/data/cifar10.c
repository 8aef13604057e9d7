/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* CIFAR-10, binary version: records of one label byte and 3 x 32 x 32 bytes, planes red, green, blue (A. Krizhevsky, "The CIFAR-10 dataset"). */
#include <string.h>

#include "data_internal.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE, MAX_FILES = 5 };

static const char *const class_names[] = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

typedef struct cifar_set {
  int n_files;
  sn_file_map maps[MAX_FILES];
  int64_t first[MAX_FILES + 1]; /* number of the first sample of each file */
} cifar_set;

static const uint8_t *record_of(const cifar_set *set, int64_t i) {
  int f = 0;
  while (i >= set->first[f + 1]) f++;
  return set->maps[f].data + (size_t)(i - set->first[f]) * RECORD;
}

static sn_status add_file(sn_diag *d, sn_dataset *s, cifar_set *set, const char *path) {
  sn_file_map *m = &set->maps[set->n_files];
  sn_status opened = sn_file_map_open(d, path, m);
  if (opened != SN_OK) {
    sn_hint(d, "expected %s", s->kind->expects);
    return opened;
  }
  set->n_files++;
  set->first[set->n_files] = set->first[set->n_files - 1] + (int64_t)(m->n_bytes / RECORD);
  if (m->n_bytes == 0 || m->n_bytes % RECORD) {
    sn_status e = sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_CORRUPT, "%zu bytes are no whole number of records of %d", m->n_bytes, RECORD);
    sn_hint(d, "the binary version of CIFAR-10 is meant (cifar-10-binary.tar.gz), not the Python one");
    return e;
  }
  s->info.n = set->first[set->n_files];
  return SN_OK;
}

static sn_status read_labels(sn_diag *d, sn_dataset *s, const cifar_set *set) {
  s->labels = SN_NEW_N(s->arena, int32_t, s->info.n);
  if (!s->labels) return sn_out_of_memory(d, (size_t)s->info.n * 4);
  for (int64_t i = 0; i < s->info.n; i++) {
    s->labels[i] = record_of(set, i)[0];
    if (s->labels[i] > 9) return sn_error(d, SN_NOWHERE, SN_ERR_CORRUPT, "cifar10: record %lld has label %d; labels are 0 to 9", (long long)i, s->labels[i]);
  }
  return SN_OK;
}

static sn_status cifar_open(sn_diag *d, sn_dataset *s, const char *dir, const sn_dataset_options *o) {
  static const char *const train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", NULL};
  static const char *const test[] = {"test_batch.bin", NULL};
  cifar_set *set = s->state = sn_alloc_zero(1, sizeof *set);
  if (!set) return sn_out_of_memory(d, sizeof *set);
  s->info = (sn_dataset_info){.channels = 3, .height = SIDE, .width = SIDE, .n_classes = 10, .class_names = class_names};
  /* The archive unpacks into a folder of its own. */
  const char *inner = sn_arena_printf(s->arena, "%s/cifar-10-batches-bin", dir);
  if (inner && sn_file_exists(inner)) dir = inner;
  for (const char *const *name = o->train ? train : test; *name; name++) {
    const char *path = sn_arena_printf(s->arena, "%s/%s", dir, *name);
    if (!path) return sn_out_of_memory(d, 0);
    SN_TRY(add_file(d, s, set, path));
  }
  return read_labels(d, s, set);
}

static sn_status cifar_read(sn_diag *d, const sn_dataset *s, int64_t i, sn_image *out) {
  const uint8_t *planes = record_of(s->state, i) + 1;
  *out = (sn_image){SIDE, SIDE, 3, sn_alloc(3 * PLANE)};
  if (!out->data) return sn_out_of_memory(d, 3 * PLANE);
  for (int p = 0; p < PLANE; p++)
    for (int c = 0; c < 3; c++) out->data[3 * p + c] = planes[c * PLANE + p];
  return SN_OK;
}

static void cifar_close(sn_dataset *s) {
  cifar_set *set = s->state;
  if (!set) return;
  for (int i = 0; i < set->n_files; i++) sn_file_map_close(&set->maps[i]);
  sn_free(set);
}

const sn_data_kind sn_data_cifar10 = {"cifar10", "data_batch_1.bin … data_batch_5.bin and test_batch.bin", false, cifar_open, cifar_read, NULL, NULL, cifar_close};
