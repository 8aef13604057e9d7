/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_emulator.h"

#include "cuda_api.h"

cu_result cuInit(unsigned flags); /* of the library linked here: reads the environment again */

char *test_module(const char *declarations, const char *body) {
  static const char *const format =
      ".version 9.0\n.target sm_80\n.address_size 64\n%s\n"
      ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
      "  .reg .pred %%p<16>; .reg .b16 %%h<32>; .reg .b32 %%r<64>; .reg .f32 %%f<32>; .reg .b64 %%d<32>; .reg .f64 %%fd<16>;\n"
      "  ld.param.u64 %%d30, [in]; ld.param.u64 %%d31, [out]; mov.u32 %%r0, %%tid.x;\n%s\n  ret;\n}\n";
  size_t n = strlen(format) + strlen(declarations) + strlen(body) + 1;
  char *text = malloc(n);
  ck_assert_ptr_nonnull(text);
  snprintf(text, n, format, declarations, body);
  return text;
}

bool test_execute(const char *text, test_run *r) {
  char why[300] = "";
  emu_module *m;
  ck_assert_msg(emu_module_read(text, &m, why, sizeof why), "%s\n%s", why, text);
  emu_function *f = emu_module_find(m, "k");
  ck_assert_ptr_nonnull(f);
  uint64_t params[2] = {emu_memory_alloc(r->in_bytes ? r->in_bytes : 1), emu_memory_alloc(r->out_bytes ? r->out_bytes : 1)};
  ck_assert(params[0] && params[1]);
  uint8_t *in = emu_memory_at(params[0], r->in_bytes), *out = emu_memory_at(params[1], r->out_bytes);
  if (r->in_bytes) memcpy(in, r->in, r->in_bytes);
  if (r->in_bytes && emu_memory_shadow(in)) memset(emu_memory_shadow(in), 1, r->in_bytes);
  if (r->out_bytes) memcpy(out, r->out, r->out_bytes);
  emu_launch l = {f, {r->blocks ? r->blocks : 1, 1, 1}, {r->threads ? r->threads : 32, 1, 1}, r->shared, (const uint8_t *)params, 2, 10000000};
  memset(&r->counters, 0, sizeof r->counters);
  bool ok = emu_execute(&l, &r->counters, &r->fault);
  if (r->out_bytes) memcpy(r->out, out, r->out_bytes);
  emu_memory_free(params[0]);
  emu_memory_free(params[1]);
  emu_module_destroy(m);
  return ok;
}

void test_checks(const char *checks) {
  emu_memory_close();
  if (checks) setenv("SINTER_EMU_CHECK", checks, 1);
  else unsetenv("SINTER_EMU_CHECK");
  ck_assert_int_eq(cuInit(0), CU_OK);
}

int main(void) {
  SRunner *r = srunner_create(ptx_suite());
  srunner_add_suite(r, instruction_suite());
  srunner_add_suite(r, warp_suite());
  srunner_add_suite(r, check_suite());
  srunner_add_suite(r, product_suite());
  srunner_add_suite(r, driver_suite());
  srunner_add_suite(r, runtime_suite());
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  emu_memory_close();
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
