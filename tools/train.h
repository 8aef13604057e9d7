/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the parts of sinter-train share. */
#ifndef TOOLS_TRAIN_H
#define TOOLS_TRAIN_H

#include "engine.h"
#include "pass_options.h"
#include "sinter/checkpoint.h"
#include "sinter/data.h"
#include "sinter/models.h"

/* One row an epoch; also the columns of the CSV file and of the state's "history". */
typedef struct train_row {
  double epoch, step, train_loss, train_accuracy, test_loss, test_accuracy, rate, samples_per_s, seconds;
} train_row;
enum { TRAIN_COLUMNS = (int)(sizeof(train_row) / sizeof(double)) };

/* Sums over the epoch under way; kept in the state, so that an interrupted epoch ends with the same figures. */
typedef struct train_sums {
  double loss, correct, samples;
} train_sums;

typedef struct tensorboard tensorboard;

typedef struct trainer {
  const sn_tool *tool;
  const sn_options *o;
  sn_diag *d;
  sn_pool *pool;
  const sn_engine *engine;
  sn_pass_setup passes;

  sn_model *model;
  sn_image_transform transform;
  sn_params *tree;
  sn_dataset *train_set, *test_set;
  sn_loader *train_loader, *test_loader;
  sn_step_options step_options;
  sn_step train, eval;
  sn_runnable train_run, eval_run;

  sn_array **values; /* parameters, then state: n_values of them, as the training step takes them */
  int n_values;
  int64_t step, epoch, batch, total_steps, n_epochs;
  train_sums sums;
  const char *unit; /* what sums.samples counts: "images", "sequences" of a classifier, "tokens" of a language model */
  train_row *history;
  size_t n_history;
  bool saved_once, dumped;
  double last_accuracy, epoch_seconds; /* seconds spent in the epoch under way */
  double last_rate;
  tensorboard *board;
} trainer;

/* train_setup.c: everything from the options, up to values. */
SN_NODISCARD sn_status train_setup(trainer *t);
void train_finish(trainer *t);

/* train_state.c */
SN_NODISCARD sn_status train_save(trainer *t);                 /* run state and model folder; nothing without --checkpoint */
SN_NODISCARD sn_status train_resume(trainer *t);               /* from --checkpoint */
SN_NODISCARD sn_status train_dump_step(trainer *t, sn_array *const *args, sn_array *result);
SN_NODISCARD sn_status train_set_values(trainer *t, const sn_bundle *params, const sn_bundle *state);
/* Weights of --init over freshly drawn ones. */
SN_NODISCARD sn_status train_load_init(trainer *t, sn_bundle **params);

/* train_loop.c */
SN_NODISCARD sn_status train_run(trainer *t, bool *interrupted);
SN_NODISCARD sn_status train_evaluate(trainer *t, double *loss, double *accuracy);

/* train_report.c */
void report_progress(const trainer *t, int64_t batch, int64_t n_batches, double seconds); /* a bar on a terminal, else nothing */
void report_clear(void);
void report_diagnostics(trainer *t); /* prints and forgets */
SN_NODISCARD sn_status report_epoch(trainer *t, const train_row *row); /* line, CSV, plot, TensorBoard */

/* plot.c: loss and accuracy against epochs. */
SN_NODISCARD sn_status plot_write(sn_diag *d, const char *path, const train_row *rows, size_t n);

/* tensorboard.c */
SN_NODISCARD sn_status tensorboard_open(sn_diag *d, const char *dir, tensorboard **out);
SN_NODISCARD sn_status tensorboard_scalar(sn_diag *d, tensorboard *b, const char *tag, int64_t step, double value);
SN_NODISCARD sn_status tensorboard_close(sn_diag *d, tensorboard *b);

#endif
