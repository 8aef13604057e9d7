/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver as runtime/device/cuda sees it: through its table of functions, from the library that SINTER_LIBCUDA names. */
#include "test_emulator.h"

#include "cuda_api.h"

typedef struct fixture { cuda_api api; cu_context context; cu_stream stream; } fixture;

static void open_driver(fixture *f) {
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_cuda_api_open(d, &f->api);
  ck_assert_msg(s == SN_OK, "%s", sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "");
  sn_diag_destroy(d);
  ck_assert_int_eq(f->api.primary_retain(&f->context, 0), CU_OK);
  ck_assert_int_eq(f->api.context_push(f->context), CU_OK);
  ck_assert_int_eq(f->api.stream_create(&f->stream, CU_STREAM_NON_BLOCKING), CU_OK);
}

static void close_driver(fixture *f) {
  cu_context was;
  f->api.stream_destroy(f->stream);
  f->api.context_pop(&was);
  ck_assert_int_eq(f->api.primary_release(0), CU_OK);
  sn_cuda_api_close(&f->api);
}

/* out[i] += in[i] */
static const char adds[] = "mul.wide.u32 %d1, %r0, 4;\nadd.s64 %d2, %d30, %d1;\nadd.s64 %d3, %d31, %d1;\nld.global.u32 %r1, [%d2];\nld.global.u32 %r2, [%d3];\nadd.u32 %r3, %r1, %r2;\nst.global.u32 [%d3], %r3;";

typedef struct ready { cu_module module; cu_function function; cu_address in, out; void *arguments[2]; } ready;

static void make_ready(fixture *f, ready *x, const char *body) {
  uint32_t values[32];
  char *text = test_module("", body);
  ck_assert_int_eq(f->api.module_load(&x->module, text), CU_OK);
  free(text);
  ck_assert_int_eq(f->api.module_function(&x->function, x->module, "k"), CU_OK);
  ck_assert_int_eq(f->api.alloc(&x->in, 128), CU_OK);
  ck_assert_int_eq(f->api.alloc(&x->out, 128), CU_OK);
  for (uint32_t k = 0; k < 32; k++) values[k] = k;
  ck_assert_int_eq(f->api.to_device(x->in, values, sizeof values, f->stream), CU_OK);
  ck_assert_int_eq(f->api.fill32(x->out, 100, 32, f->stream), CU_OK);
  x->arguments[0] = &x->in;
  x->arguments[1] = &x->out;
}

static cu_result launch(fixture *f, ready *x) { return f->api.launch(x->function, 1, 1, 1, 32, 1, 1, 0, f->stream, x->arguments, NULL); }

START_TEST(launches_copies_and_fills) {
  fixture f;
  ready x;
  uint32_t out[32];
  float milliseconds = -1;
  cu_event events[2];
  open_driver(&f);
  make_ready(&f, &x, adds);
  for (int k = 0; k < 2; k++) ck_assert_int_eq(f.api.event_create(&events[k], 0), CU_OK);
  ck_assert_int_ne(f.api.event_elapsed(&milliseconds, events[0], events[1]), CU_OK);
  ck_assert_int_eq(f.api.event_record(events[0], f.stream), CU_OK);
  ck_assert_int_eq(launch(&f, &x), CU_OK);
  ck_assert_int_eq(f.api.event_record(events[1], f.stream), CU_OK);
  ck_assert_int_eq(f.api.on_device(x.in, x.out, 128, f.stream), CU_OK);
  ck_assert_int_eq(f.api.to_host(out, x.in, 128, f.stream), CU_OK);
  ck_assert_int_eq(f.api.stream_wait(f.stream), CU_OK);
  for (uint32_t k = 0; k < 32; k++) ck_assert_uint_eq(out[k], 100 + k);
  ck_assert_int_eq(f.api.event_elapsed(&milliseconds, events[0], events[1]), CU_OK);
  ck_assert(milliseconds >= 0);
  for (int k = 0; k < 2; k++) f.api.event_destroy(events[k]);
  ck_assert_int_eq(f.api.module_unload(x.module), CU_OK);
  close_driver(&f);
}
END_TEST

START_TEST(a_graph_is_its_capture_again_and_again) {
  fixture f;
  ready x;
  cu_graph graph;
  cu_graph_exec exec;
  uint32_t out[32];
  open_driver(&f);
  make_ready(&f, &x, adds);
  ck_assert_int_eq(f.api.capture_begin(f.stream, CU_CAPTURE_RELAXED), CU_OK);
  ck_assert_int_eq(launch(&f, &x), CU_OK);
  ck_assert_int_ne(f.api.stream_wait(f.stream), CU_OK);
  ck_assert_int_ne(f.api.to_host(out, x.out, 128, f.stream), CU_OK);
  ck_assert_int_eq(f.api.capture_end(f.stream, &graph), CU_OK);
  ck_assert_int_eq(f.api.to_host(out, x.out, 128, f.stream), CU_OK);
  ck_assert_uint_eq(out[5], 100); /* nothing ran yet */
  ck_assert_int_eq(f.api.graph_instantiate(&exec, graph, 0), CU_OK);
  ck_assert_int_eq(f.api.graph_destroy(graph), CU_OK);
  for (int k = 0; k < 3; k++) ck_assert_int_eq(f.api.graph_launch(exec, f.stream), CU_OK);
  ck_assert_int_eq(f.api.to_host(out, x.out, 128, f.stream), CU_OK);
  for (uint32_t k = 0; k < 32; k++) ck_assert_uint_eq(out[k], 100 + 3 * k);
  ck_assert_int_eq(f.api.graph_exec_destroy(exec), CU_OK);
  f.api.module_unload(x.module);
  close_driver(&f);
}
END_TEST

START_TEST(wrong_calls_are_refused) {
  fixture f;
  ready x;
  cu_module m;
  cu_function none;
  cu_address at;
  open_driver(&f);
  make_ready(&f, &x, adds);
  ck_assert_int_eq(f.api.module_load(&m, "\177ELF and so on"), CU_NO_BINARY);
  ck_assert_int_eq(f.api.module_load(&m, "no PTX at all"), CU_INVALID_PTX);
  ck_assert_int_eq(f.api.module_load(&m, ".version 9.0\n.target sm_90a\n.address_size 64\n"), CU_NO_BINARY);
  ck_assert_int_ne(f.api.module_function(&none, x.module, "missing"), CU_OK);
  ck_assert_int_ne(f.api.launch(x.function, 0, 1, 1, 32, 1, 1, 0, f.stream, x.arguments, NULL), CU_OK);
  ck_assert_int_ne(f.api.launch(x.function, 1, 1, 1, 1025, 1, 1, 0, f.stream, x.arguments, NULL), CU_OK);
  ck_assert_int_ne(f.api.launch(x.function, 1, 1, 1, 32, 1, 1, 100 << 10, f.stream, x.arguments, NULL), CU_OK);
  ck_assert_int_eq(f.api.function_set(x.function, CU_FUNCTION_MAX_SHARED, 100 << 10), CU_OK);
  ck_assert_int_eq(f.api.launch(x.function, 1, 1, 1, 32, 1, 1, 100 << 10, f.stream, x.arguments, NULL), CU_OK);
  ck_assert_int_ne(f.api.function_set(x.function, CU_FUNCTION_MAX_SHARED, 200 << 10), CU_OK);
  ck_assert_int_eq(f.api.alloc(&at, (size_t)1 << 50), CU_OUT_OF_MEMORY);
  ck_assert_int_ne(f.api.free(x.in + 4), CU_OK);
  ck_assert_int_ne(f.api.fill32(x.out, 0, 33, f.stream), CU_OK);
  ck_assert_int_ne(f.api.on_device(x.out, x.in, 129, f.stream), CU_OK);
  /* none of this hurts what follows */
  ck_assert_int_eq(launch(&f, &x), CU_OK);
  ck_assert_int_eq(f.api.stream_wait(f.stream), CU_OK);
  f.api.module_unload(x.module);
  close_driver(&f);
}
END_TEST

/* A fault shows after the launch, at every call, until the context is gone; then all is well. */
START_TEST(a_fault_stays_until_the_context_goes) {
  for (int round = 0; round < 2; round++) {
    fixture f;
    ready x;
    cu_address at;
    const char *name;
    open_driver(&f);
    make_ready(&f, &x, round ? adds : "ld.global.u32 %r1, [%d30+4096];");
    ck_assert_int_eq(launch(&f, &x), CU_OK);
    int want = round ? CU_OK : 700;
    ck_assert_int_eq(f.api.stream_wait(f.stream), want);
    ck_assert_int_eq(f.api.alloc(&at, 64), want);
    ck_assert_int_eq(f.api.error_name(700, &name), CU_OK);
    ck_assert_str_eq(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    f.api.module_unload(x.module);
    close_driver(&f);
  }
}
END_TEST

typedef struct ask { const char *fault; cu_result alloc, module, wait; } ask;
static const ask asks[] = {{"alloc:1", CU_OUT_OF_MEMORY, CU_OK, CU_OK}, {"module:1", CU_OK, CU_OUT_OF_MEMORY, CU_OK}, {"kernel:1", CU_OK, CU_OK, 700}, {"lost:1", CU_OK, CU_OK, 214}};

START_TEST(faults_come_when_asked_for) {
  const ask *a = &asks[_i];
  fixture f;
  cu_address at;
  cu_module m = NULL;
  cu_function k;
  setenv("SINTER_EMU_FAULT", a->fault, 1);
  open_driver(&f);
  char *text = test_module("", "mov.u32 %r1, 0;");
  void *arguments[2] = {&at, &at};
  ck_assert_int_eq(f.api.alloc(&at, 64), a->alloc);
  ck_assert_int_eq(f.api.module_load(&m, text), a->module);
  if (m && f.api.module_function(&k, m, "k") == CU_OK) ck_assert_int_eq(f.api.launch(k, 1, 1, 1, 32, 1, 1, 0, f.stream, arguments, NULL), CU_OK);
  ck_assert_int_eq(f.api.stream_wait(f.stream), a->wait);
  if (m) f.api.module_unload(m);
  free(text);
  close_driver(&f);
  unsetenv("SINTER_EMU_FAULT");
}
END_TEST

START_TEST(old_drivers_and_no_devices_are_one_line) {
  cuda_api api;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  setenv("SINTER_EMU_DRIVER_VERSION", "11080", 1);
  ck_assert_int_eq(sn_cuda_api_open(d, &api), SN_ERR_VERSION);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, "CUDA 11.8"));
  unsetenv("SINTER_EMU_DRIVER_VERSION");
  setenv("SINTER_EMU_FAULT", "no-device", 1);
  ck_assert_int_eq(sn_cuda_api_open(d, &api), SN_ERR_UNAVAILABLE);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 1)->message, "no device"));
  unsetenv("SINTER_EMU_FAULT");
  sn_diag_destroy(d);
}
END_TEST

Suite *driver_suite(void) {
  Suite *s = suite_create("driver");
  TCase *t = tcase_create("driver");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, launches_copies_and_fills);
  tcase_add_test(t, a_graph_is_its_capture_again_and_again);
  tcase_add_test(t, wrong_calls_are_refused);
  tcase_add_test(t, a_fault_stays_until_the_context_goes);
  tcase_add_loop_test(t, faults_come_when_asked_for, 0, (int)(sizeof asks / sizeof asks[0]));
  tcase_add_test(t, old_drivers_and_no_devices_are_one_line);
  suite_add_tcase(s, t);
  return s;
}
