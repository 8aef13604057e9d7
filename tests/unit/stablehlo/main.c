/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "test_stablehlo.h"

sn_status run_text(sn_diag *d, const char *text) {
  sn_module *m = NULL;
  sn_array *out = NULL;
  sn_eval_options o;
  sn_eval_options_init(&o);
  o.customs = sn_stablehlo_customs();
  o.replicas = o.partitions = 1;
  SN_TRY(sn_stablehlo_parse(d, "t.mlir", text, strlen(text), NULL, &m));
  sn_status s = sn_eval(d, m, &o, 0, NULL, &out);
  sn_array_release(out);
  sn_module_destroy(m);
  return s;
}

int main(void) {
  Suite *s = suite_create("stablehlo");
  suite_add_tcase(s, text_cases());
  suite_add_tcase(s, map_cases());
  suite_add_tcase(s, hostile_cases());
  suite_add_tcase(s, write_cases());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
