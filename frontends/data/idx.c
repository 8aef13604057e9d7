/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MNIST's files. IDX: two zero bytes, the element type (8: unsigned byte), the rank, then that many big-endian 32-bit sizes, then the elements, last
 * dimension fastest (Y. LeCun, "The MNIST database of handwritten digits"). Each file may be gzipped, as it is distributed. */
#include <string.h>
#include <zlib.h>

#include "data_internal.h"

typedef struct idx_file {
  uint8_t *bytes; /* whole file, unpacked */
  size_t n_bytes;
  int rank;
  int64_t dims[3];
  const uint8_t *data;
} idx_file;

typedef struct idx_set {
  idx_file images, labels;
} idx_set;

static sn_status torn(sn_diag *d, const char *path, const char *what) {
  return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_CORRUPT, "%s", what);
}

/* gzread also passes plain files through. */
static sn_status read_unpacked(sn_diag *d, const char *path, uint8_t **out, size_t *n_bytes) {
  gzFile f = gzopen(path, "rb");
  if (!f) return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_IO, "cannot open");
  uint8_t *data = NULL;
  size_t n = 0, cap = 1 << 20;
  sn_status s = SN_OK;
  for (;;) {
    uint8_t *grown = sn_realloc(data, cap);
    if (!grown) s = sn_out_of_memory(d, cap);
    if (!grown) break;
    data = grown;
    int got = gzread(f, data + n, (unsigned)(cap - n < 1 << 30 ? cap - n : 1 << 30));
    if (got < 0) s = torn(d, path, "damaged gzip data");
    if (got <= 0) break;
    n += (size_t)got;
    if (n == cap) cap *= 2;
  }
  gzclose(f);
  if (s != SN_OK) {
    sn_free(data);
    return s;
  }
  *out = data;
  *n_bytes = n;
  return SN_OK;
}

static sn_status check_header(sn_diag *d, const char *path, int rank, idx_file *f) {
  const uint8_t *b = f->bytes;
  if (f->n_bytes < 4 || b[0] || b[1]) return torn(d, path, "not an IDX file: it does not begin with two zero bytes");
  if (b[2] != 8) return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_UNSUPPORTED, "element type 0x%02x; expected 0x08, unsigned bytes", b[2]);
  if (b[3] != rank) return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_SHAPE, "rank %d; expected %d", b[3], rank);
  size_t header = 4 + 4 * (size_t)rank, want = 1;
  if (f->n_bytes < header) return torn(d, path, "cut off within its header");
  for (int i = 0; i < rank; i++) {
    const uint8_t *p = b + 4 + 4 * i;
    f->dims[i] = (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
    if (f->dims[i] == 0) return torn(d, path, "holds no elements");
    if ((size_t)f->dims[i] > SIZE_MAX / 2 / want) return torn(d, path, "its header states an impossible size");
    want *= (size_t)f->dims[i];
  }
  if (f->n_bytes - header != want)
    return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_CORRUPT, "its header promises %zu elements, the file holds %zu", want, f->n_bytes - header);
  f->rank = rank;
  f->data = b + header;
  return SN_OK;
}

/* The first of part-KIND-idxR-ubyte[.gz] over the names of the part. */
static const char *find_file(const sn_dataset *s, const char *dir, bool train, const char *kind, int rank) {
  const char *const parts[] = {train ? "train" : "test", train ? "train" : "t10k"}, *const ends[] = {"", ".gz"};
  for (int p = 0; p < 2; p++)
    for (int e = 0; e < 2; e++) {
      const char *path = sn_arena_printf(s->arena, "%s/%s-%s-idx%d-ubyte%s", dir, parts[p], kind, rank, ends[e]);
      if (path && sn_file_exists(path)) return path;
    }
  return NULL;
}

static sn_status open_file(sn_diag *d, const sn_dataset *s, const char *dir, bool train, const char *kind, int rank, idx_file *f) {
  const char *path = find_file(s, dir, train, kind, rank);
  if (!path) {
    sn_status e = sn_error(d, (sn_loc){dir, 0, 0}, SN_ERR_IO, "no %s-%s-idx%d-ubyte here", train ? "train" : "test", kind, rank);
    sn_hint(d, "expected %s", s->kind->expects);
    return e;
  }
  SN_TRY(read_unpacked(d, path, &f->bytes, &f->n_bytes));
  return check_header(d, path, rank, f);
}

static void idx_close(sn_dataset *s) {
  idx_set *set = s->state;
  if (!set) return;
  sn_free(set->images.bytes);
  sn_free(set->labels.bytes);
  sn_free(set);
}

static sn_status idx_open(sn_diag *d, sn_dataset *s, const char *dir, const sn_dataset_options *o) {
  idx_set *set = s->state = sn_alloc_zero(1, sizeof *set);
  if (!set) return sn_out_of_memory(d, sizeof *set);
  SN_TRY(open_file(d, s, dir, o->train, "images", 3, &set->images));
  SN_TRY(open_file(d, s, dir, o->train, "labels", 1, &set->labels));
  const idx_file *im = &set->images;
  if (im->dims[0] != set->labels.dims[0])
    return sn_error(d, (sn_loc){dir, 0, 0}, SN_ERR_SHAPE, "%lld images but %lld labels", (long long)im->dims[0], (long long)set->labels.dims[0]);
  s->labels = SN_NEW_N(s->arena, int32_t, im->dims[0]);
  if (!s->labels) return sn_out_of_memory(d, (size_t)im->dims[0] * 4);
  int32_t top = 0;
  for (int64_t i = 0; i < im->dims[0]; i++) {
    s->labels[i] = set->labels.data[i];
    if (s->labels[i] > top) top = s->labels[i];
  }
  s->info = (sn_dataset_info){.n = im->dims[0], .channels = 1, .height = im->dims[1], .width = im->dims[2], .n_classes = top + 1};
  return SN_OK;
}

static sn_status idx_read(sn_diag *d, const sn_dataset *s, int64_t i, sn_image *out) {
  const idx_file *f = &((const idx_set *)s->state)->images;
  size_t bytes = (size_t)(f->dims[1] * f->dims[2]);
  *out = (sn_image){f->dims[1], f->dims[2], 1, sn_alloc(bytes)};
  if (!out->data) return sn_out_of_memory(d, bytes);
  memcpy(out->data, f->data + (size_t)i * bytes, bytes);
  return SN_OK;
}

#define IDX_EXPECTS "train-images-idx3-ubyte, train-labels-idx1-ubyte, test-images-idx3-ubyte, test-labels-idx1-ubyte (also t10k-…, also .gz)"
const sn_data_kind sn_data_idx = {"idx", IDX_EXPECTS, false, idx_open, idx_read, NULL, NULL, idx_close};
const sn_data_kind sn_data_digits = {"digits", IDX_EXPECTS, false, idx_open, idx_read, NULL, NULL, idx_close};
