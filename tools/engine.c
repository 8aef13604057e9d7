/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "engine.h"

#include <string.h>

#include "sinter/compiler.h"
#include "sinter/device.h"
#include "sinter/stablehlo.h"

const sn_option sn_options_engine[] = {
    {"engine", 0, SN_OPT_CHOICE, "interpreter|op-by-op|fused", NULL, "what runs the program; default: SINTER_ENGINE, else the tool's own choice", 0, 0},
    {"device", 0, SN_OPT_CHOICE, "cpu|cuda", "cpu", "where it runs; cuda: an NVIDIA device, through libcuda.so.1 or SINTER_LIBCUDA", 0, 0},
    {"target", 0, SN_OPT_TEXT, "NAME", NULL, "what it is compiled for: native, x86-64-v3, sm_90a, … (default: the machine or device at hand)", 0, 0},
    {"precision", 0, SN_OPT_CHOICE, "program|tf32", "program", "f32 products that ask for nothing: as they are, or on a GPU's tensor cores in tf32", 0, 0},
    {"library", 0, SN_OPT_CHOICE, "auto|none|cublaslt", "auto", "who multiplies on a GPU where nothing is fused with a product: cuBLASLt where it is taken to be faster, never, wherever it can", 0, 0},
    {"threads", 0, SN_OPT_INT, "N", "0", "threads to use; 0: SINTER_THREADS, else every CPU of this process. Results do not depend on it", 0, 1024},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

/* ---- the interpreter ----------------------------------------------------------------------------------------------- */

typedef struct interpreter {
  const sn_module *module;
  sn_eval_options options;
} interpreter;

static sn_status interpreter_prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out) {
  interpreter *p = sn_alloc(sizeof *p);
  if (!p) return sn_out_of_memory(d, sizeof *p);
  p->module = m;
  sn_eval_options_init(&p->options);
  p->options.pool = setup->pool;
  p->options.stop_at_nan = setup->stop_at_nan;
  p->options.seed = setup->seed;
  p->options.probe = setup->probe;
  p->options.stepwise = setup->stepwise;
  p->options.customs = sn_stablehlo_customs();
  *out = p;
  return SN_OK;
}

static sn_status interpreter_call(sn_diag *d, void *program, int n, sn_array *const *args, sn_array **out) {
  const interpreter *p = program;
  return sn_eval(d, p->module, &p->options, n, args, out);
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static const sn_engine engines[] = {
    {"interpreter", interpreter_prepare, interpreter_call, sn_free},
    {"op-by-op", sn_engine_op_by_op_prepare, sn_engine_compiled_call, sn_engine_compiled_release},
    {"fused", sn_engine_fused_prepare, sn_engine_compiled_call, sn_engine_compiled_release},
};

const sn_engine *sn_engine_find(const char *name) {
  for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
    if (strcmp(engines[i].name, name) == 0) return &engines[i];
  return NULL;
}

sn_status sn_runnable_init(sn_diag *d, const sn_engine *e, const sn_engine_setup *setup, const sn_module *m, sn_runnable *out) {
  *out = (sn_runnable){e, NULL};
  return e->prepare(d, setup, m, &out->program);
}

sn_status sn_runnable_call(sn_diag *d, const sn_runnable *r, int n, sn_array *const *args, sn_array **out) {
  *out = NULL;
  return r->engine->call(d, r->program, n, args, out);
}

void sn_runnable_finish(sn_runnable *r) {
  if (r->program) r->engine->release(r->program);
  *r = (sn_runnable){NULL, NULL};
}

void sn_engine_setup_from_options(const sn_options *o, sn_engine_setup *setup) {
  setup->device = sn_opt_text(o, "device");
  setup->precision = sn_opt_text(o, "precision");
  setup->library = sn_opt_text(o, "library");
  setup->target = sn_opt_given(o, "target") ? sn_opt_text(o, "target") : NULL;
}

/* A device runs compiled programs only; what it lacks is said at once, not after the module was read. */
static sn_status check_device(sn_diag *d, const char *device, const char *asked, const char *preferred, const sn_engine **engine) {
  const sn_driver *driver = sn_driver_find(device);
  sn_assert(driver); /* the option's choices are the names of the table */
  if (asked && strcmp(asked, "interpreter") == 0) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "the interpreter runs on the CPU: --device=%s goes with --engine=fused or op-by-op", device);
  if (!asked && strcmp(preferred, "interpreter") == 0) *engine = sn_engine_find("fused");
  return driver->check(d);
}

static sn_status choose_engine(sn_diag *d, const sn_options *o, const char *preferred, const sn_engine **engine) {
  const char *asked = sn_opt_given(o, "engine") ? sn_opt_text(o, "engine") : sn_env("SINTER_ENGINE");
  *engine = sn_engine_find(asked ? asked : preferred);
  if (!*engine) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "SINTER_ENGINE=%s: the engines are interpreter, op-by-op and fused", asked);
  if (strcmp(sn_opt_text(o, "device"), "cpu") != 0) return check_device(d, sn_opt_text(o, "device"), asked, preferred, engine);
  if (asked || strcmp(preferred, "interpreter") == 0 || sn_compiler_available(NULL)) return SN_OK;
  sn_note(d, SN_NOWHERE, "libsinter-llvm.so is not there: the interpreter runs the program, which is slow");
  *engine = sn_engine_find("interpreter");
  return SN_OK;
}

sn_status sn_pool_from_options(sn_diag *d, const sn_options *o, sn_pool **pool) {
  int n = (int)sn_opt_int(o, "threads");
  sn_status s = sn_pool_create(n, pool);
  if (s == SN_OK) return SN_OK;
  if (n) sn_error(d, SN_NOWHERE, s, "cannot start %d threads", n);
  else sn_error(d, SN_NOWHERE, s, "cannot start a thread for each CPU");
  sn_hint(d, "a limit of processes or of memory (ulimit -u, ulimit -v); --threads=1 starts none");
  return s;
}

sn_status sn_engine_from_options(sn_diag *d, const sn_options *o, const char *preferred, const sn_engine **engine, sn_pool **pool) {
  *pool = NULL;
  SN_TRY(choose_engine(d, o, preferred, engine));
  return sn_pool_from_options(d, o, pool);
}
