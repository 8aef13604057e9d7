/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* HLO text: any bytes give a module or a located fault; what a module prints parses back to an equal one and prints the same again, long and short. */
#include <string.h>

#include "fuzz.h"
#include "sinter/text.h"

static void print(const sn_module *m, bool xla, sn_str *out) {
  sn_print_options o;
  if (xla) sn_print_options_init(&o);
  else sn_print_options_init_short(&o);
  memset(out, 0, sizeof *out);
  sn_hlo_print(out, m, &o);
  FUZZ_CHECK(!out->failed, "printing ran out of memory");
}

static void show(const sn_diag *d, const sn_str *text) {
  fprintf(stderr, "printed text that does not come back:\n%s\n", text->data);
  sn_diag_print(d, stderr, false);
}

static void round_trip(const sn_module *m, bool xla) {
  sn_str first, second;
  sn_diag *d = NULL;
  sn_module *again = NULL;
  print(m, xla, &first);
  FUZZ_CHECK(sn_diag_create(&d) == SN_OK, "out of memory");
  sn_status s = sn_hlo_parse(d, "printed", first.data, first.n, &again);
  if (s != SN_OK) show(d, &first);
  FUZZ_CHECK(s == SN_OK, "%s", sn_status_text(s));
  print(again, xla, &second);
  bool same = first.n == second.n && memcmp(first.data, second.data, first.n) == 0;
  if (!same) fprintf(stderr, "first:\n%s\nsecond:\n%s\n", first.data, second.data);
  FUZZ_CHECK(same, "printed twice, two texts");
  if (!sn_module_equal(m, again, 0)) show(d, &first);
  FUZZ_CHECK(sn_module_equal(m, again, 0), "the printed text is another program");
  FUZZ_CHECK(sn_module_hash(m) == sn_module_hash(again), "equal modules, two hashes");
  sn_str_finish(&first);
  sn_str_finish(&second);
  sn_module_destroy(again);
  sn_diag_destroy(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  if (sn_diag_create(&d) != SN_OK) return 0;
  sn_status s = sn_hlo_parse(d, "fuzz.hlo", (const char *)data, n_bytes, &m);
  FUZZ_CHECK((s == SN_OK) == (m != NULL), "status %s", sn_status_text(s));
  FUZZ_CHECK(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0, "%s without a message", sn_status_text(s));
  for (size_t k = 0; s != SN_OK && k < sn_diag_stored(d); k++) FUZZ_CHECK(sn_diag_get(d, k)->loc.line > 0, "no place: %s", sn_diag_get(d, k)->message);
  if (m && sn_module_verify(d, m, 0) == SN_OK) { /* what means nothing need not print as itself */
    round_trip(m, true);
    round_trip(m, false);
  }
  sn_module_destroy(m);
  sn_diag_destroy(d);
  return 0;
}
