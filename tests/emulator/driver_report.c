/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What kernels did: for tests through sn_emu_counters, for people as a line of JSON a kernel in SINTER_EMU_REPORT. */
#include "driver.h"

static void add(emu_counters *to, const emu_counters *from) {
  uint64_t *a = (uint64_t *)(void *)to;
  const uint64_t *b = (const uint64_t *)(const void *)from;
  for (size_t k = 0; k < sizeof *to / sizeof *a; k++) a[k] += b[k];
}

void emu_report_keep(const emu_function *f) {
  emu_driver *d = &emu_the_driver;
  if (!f->counters.launches) return;
  if (d->n_rows < EMU_MAX_ROWS) memset(&d->rows[d->n_rows++], 0, sizeof d->rows[0]);
  emu_row_of_report *row = &d->rows[d->n_rows - 1];
  snprintf(row->name, sizeof row->name, "%s", row->counters.launches ? "others" : f->name);
  add(&row->counters, &f->counters);
}

static void print_row(FILE *to, const emu_row_of_report *row) {
  static const char *const names[] = {"launches", "blocks", "warp_instructions", "lane_instructions", "divergent_branches", "barriers", "global_loads", "global_load_sectors",
                                      "global_load_ideal", "global_load_bytes", "global_stores", "global_store_sectors", "global_store_ideal", "global_store_bytes", "shared_requests",
                                      "shared_wavefronts", "shared_ideal", "local_requests", "atomics", "products"};
  const uint64_t *v = (const uint64_t *)(const void *)&row->counters;
  fprintf(to, "{\"kernel\": \"%s\"", row->name);
  for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) fprintf(to, ", \"%s\": %llu", names[k], (unsigned long long)v[k]);
  fputs("}\n", to);
}

/* Whoever keeps the rows for sn_emu_counters asks before the context goes; a file has them afterwards. */
void emu_report_write(void) {
  emu_driver *d = &emu_the_driver;
  FILE *to = emu_settings_get()->report ? fopen(emu_settings_get()->report, "a") : NULL;
  for (uint32_t k = 0; to && k < d->n_rows; k++) print_row(to, &d->rows[k]);
  if (to) fclose(to);
  if (emu_settings_get()->report) sn_emu_reset();
}

const char *sn_emu_fault(void) { return emu_the_driver.fault; }

int sn_emu_counters(const char *kernel, emu_counters *out) {
  emu_driver *d = &emu_the_driver;
  int n = 0;
  memset(out, 0, sizeof *out);
  for (uint32_t k = 0; k < d->n_rows; k++) {
    if (strncmp(d->rows[k].name, kernel, strlen(kernel)) != 0) continue;
    add(out, &d->rows[k].counters);
    n++;
  }
  return n;
}

void sn_emu_reset(void) { emu_the_driver.n_rows = 0; }
