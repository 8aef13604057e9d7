/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What people see while it runs. Figures go to stdout, a line an epoch; the bar and messages to stderr. */
#include <unistd.h>

#include "train.h"

static bool on_terminal(void) {
  const char *term = sn_env("TERM");
  return isatty(fileno(stderr)) && !(term && term[0] == 'd');
}

void report_clear(void) {
  if (on_terminal()) fputs("\r\033[K", stderr);
}

void report_diagnostics(trainer *t) {
  if (sn_diag_stored(t->d) == 0) return;
  report_clear();
  sn_diag_print(t->d, stderr, sn_wants_colour(stderr));
  sn_diag_clear(t->d);
}

static void print_eta(double seconds) {
  long s = seconds < 0 || seconds > 1e8 ? 0 : (long)(seconds + 0.5);
  if (s >= 3600) fprintf(stderr, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else fprintf(stderr, "%ld:%02ld", s / 60, s % 60);
}

/* Made for 80 columns; the terminal cuts what is longer (?7l: no wrapping), or the next \r would go back to the middle of it alone. */
void report_progress(const trainer *t, int64_t batch, int64_t n_batches, double seconds) {
  enum { WIDTH = 10 };
  if (!on_terminal()) return;
  double n = t->sums.samples > 0 ? t->sums.samples : 1, rate = seconds > 0 ? n / seconds : 0;
  int full = (int)(batch * WIDTH / n_batches);
  fprintf(stderr, "\r\033[?7lepoch %lld/%lld [", (long long)t->epoch + 1, (long long)t->n_epochs);
  for (int i = 0; i < WIDTH; i++) fputc(i < full ? '=' : i == full ? '>' : ' ', stderr);
  fprintf(stderr, "] %lld/%lld  ETA ", (long long)batch, (long long)n_batches);
  print_eta(batch > 0 ? seconds / (double)batch * (double)(t->total_steps - t->step) : 0);
  fprintf(stderr, "  loss %.4f  accuracy %.4f  %.0f %s/s\033[K\033[?7h", t->sums.loss / n, t->sums.correct / n, rate, t->unit);
  fflush(stderr);
}

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

static sn_status write_csv(trainer *t, const char *path) {
  sn_str s = {0};
  sn_str_printf(&s, "epoch,step,train_loss,train_accuracy,test_loss,test_accuracy,learning_rate,%s_per_s,seconds\n", t->unit);
  for (size_t i = 0; i < t->n_history; i++) {
    const train_row *r = &t->history[i];
    sn_str_printf(&s, "%.0f,%.0f,%.9g,%.9g,%.9g,%.9g,%.9g,%.4g,%.4g\n", r->epoch, r->step, r->train_loss, r->train_accuracy, r->test_loss, r->test_accuracy, r->rate,
                  r->samples_per_s, r->seconds);
  }
  sn_status status = s.failed ? sn_out_of_memory(t->d, s.n) : sn_file_write(t->d, path, s.data, s.n);
  sn_str_finish(&s);
  return status;
}

static sn_status write_board(trainer *t, const train_row *r) {
  const struct { const char *tag; double value; } scalars[] = {{"train/loss", r->train_loss}, {"train/accuracy", r->train_accuracy}, {"test/loss", r->test_loss},
      {"test/accuracy", r->test_accuracy}, {"learning_rate", r->rate}, {"samples_per_s", r->samples_per_s}};
  for (size_t i = 0; t->board && i < sizeof scalars / sizeof *scalars; i++)
    SN_TRY(tensorboard_scalar(t->d, t->board, scalars[i].tag, (int64_t)r->step, scalars[i].value));
  return SN_OK;
}

sn_status report_epoch(trainer *t, const train_row *r) {
  const char *log = sn_opt_text(t->o, "log"), *plot = sn_opt_text(t->o, "plot");
  report_clear();
  printf("epoch %3.0f/%lld  step %.0f  loss %.4f  accuracy %.4f  test loss %.4f  test accuracy %.4f  %.0f %s/s  %.1f s\n", r->epoch, (long long)t->n_epochs, r->step,
         r->train_loss, r->train_accuracy, r->test_loss, r->test_accuracy, r->samples_per_s, t->unit, r->seconds);
  fflush(stdout);
  if (log) SN_TRY(write_csv(t, log));
  if (plot) SN_TRY(plot_write(t->d, plot, t->history, t->n_history));
  return write_board(t, r);
}
