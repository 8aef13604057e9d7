/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* TensorBoard's event files. A file is a run of records: length (u64), masked CRC-32C of the length, payload, masked CRC-32C of the payload (TFRecord). A
 * payload is a protobuf Event: 1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary { 1 value { 1 tag (string), 2 simple_value (float) } }. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train.h"

struct tensorboard {
  FILE *file;
  char path[1024];
  uint32_t table[256];
};

/* ---- CRC-32C (Castagnoli), reflected polynomial 0x82f63b78 ------------------------------------------------------------------- */

static void make_table(uint32_t table[256]) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0x82f63b78u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
}

static uint32_t masked_crc(const uint32_t table[256], const uint8_t *p, size_t n) {
  uint32_t c = ~0u;
  for (size_t i = 0; i < n; i++) c = table[(c ^ p[i]) & 0xff] ^ (c >> 8);
  c = ~c;
  return ((c >> 15) | (c << 17)) + 0xa282ead8u;
}

/* ---- protobuf ------------------------------------------------------------------------------------------------------------------ */

static void put_varint(sn_str *s, uint64_t v) {
  for (; v >= 0x80; v >>= 7) sn_str_char(s, (char)(uint8_t)(v | 0x80));
  sn_str_char(s, (char)(uint8_t)v);
}

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_key(sn_str *s, unsigned field, unsigned wire) { put_varint(s, field << 3 | wire); }

static void put_bytes(sn_str *s, unsigned field, const char *data, size_t n) {
  put_key(s, field, WIRE_BYTES);
  put_varint(s, n);
  sn_str_add_n(s, data, n);
}

static void put_raw(sn_str *s, unsigned field, unsigned wire, const void *value, size_t n) {
  put_key(s, field, wire);
  sn_str_add_n(s, value, n); /* little-endian machines only, as all of Sinter */
}

static void begin_event(sn_str *s, int64_t step) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  double wall = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  put_raw(s, 1, WIRE_64, &wall, sizeof wall);
  put_key(s, 2, WIRE_VARINT);
  put_varint(s, (uint64_t)step);
}

static sn_status write_record(sn_diag *d, tensorboard *b, const sn_str *payload) {
  uint64_t n = payload->n;
  if (payload->failed) return sn_out_of_memory(d, payload->n);
  uint32_t head = masked_crc(b->table, (const uint8_t *)&n, sizeof n), tail = masked_crc(b->table, (const uint8_t *)payload->data, payload->n);
  bool ok = fwrite(&n, sizeof n, 1, b->file) == 1 && fwrite(&head, sizeof head, 1, b->file) == 1 && fwrite(payload->data, 1, payload->n, b->file) == payload->n &&
            fwrite(&tail, sizeof tail, 1, b->file) == 1;
  return ok ? SN_OK : sn_error(d, (sn_loc){b->path, 0, 0}, SN_ERR_IO, "cannot write");
}

/* ---- files ----------------------------------------------------------------------------------------------------------------------- */

sn_status tensorboard_open(sn_diag *d, const char *dir, tensorboard **out) {
  static const char version[] = "brain.Event:2";
  sn_str event = {0};
  *out = NULL;
  SN_TRY(sn_dir_make(d, dir));
  tensorboard *b = sn_alloc_zero(1, sizeof *b);
  if (!b) return sn_out_of_memory(d, sizeof *b);
  make_table(b->table);
  snprintf(b->path, sizeof b->path, "%s/events.out.tfevents.%lld.%ld.sinter", dir, (long long)time(NULL), (long)getpid());
  b->file = fopen(b->path, "wb");
  if (!b->file) {
    sn_status s = sn_error(d, (sn_loc){b->path, 0, 0}, SN_ERR_IO, "cannot create");
    sn_free(b);
    return s;
  }
  begin_event(&event, 0);
  put_bytes(&event, 3, version, strlen(version));
  sn_status s = write_record(d, b, &event);
  sn_str_finish(&event);
  *out = b;
  return s;
}

sn_status tensorboard_scalar(sn_diag *d, tensorboard *b, const char *tag, int64_t step, double value) {
  sn_str event = {0}, summary = {0}, entry = {0};
  float v = (float)value;
  put_bytes(&entry, 1, tag, strlen(tag));
  put_raw(&entry, 2, WIRE_32, &v, sizeof v);
  if (!entry.failed) put_bytes(&summary, 1, entry.data, entry.n);
  begin_event(&event, step);
  if (!summary.failed && summary.data) put_bytes(&event, 5, summary.data, summary.n);
  sn_status s = entry.failed || summary.failed ? sn_out_of_memory(d, event.n) : write_record(d, b, &event);
  sn_str_finish(&event);
  sn_str_finish(&summary);
  sn_str_finish(&entry);
  return s;
}

sn_status tensorboard_close(sn_diag *d, tensorboard *b) {
  sn_status s = fclose(b->file) == 0 ? SN_OK : sn_error(d, (sn_loc){b->path, 0, 0}, SN_ERR_IO, "cannot write");
  sn_free(b);
  return s;
}
