/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options_internal.h"

typedef struct option_value {
  const sn_option *option;
  bool given;
  bool off;           /* --no-NAME */
  const char *text;   /* NULL: neither given nor default */
  size_t n;           /* LIST */
  const char **texts; /* room for argc of them */
} option_value;

struct sn_options {
  const sn_tool *tool;
  sn_arena *arena;
  size_t n_values;
  option_value *values;
  size_t n_operands;
  const char **operands;
  int argc;
};

const sn_option sn_options_builtin[] = {
    {"help", 'h', SN_OPT_FLAG, NULL, NULL, "print this and leave", 0, 0},
    {"version", 0, SN_OPT_FLAG, NULL, NULL, "print the version and leave", 0, 0},
    {"man", 0, SN_OPT_FLAG, NULL, NULL, "print the manual page (roff) and leave", 0, 0},
    {"completion", 0, SN_OPT_CHOICE, "bash|zsh|fish", NULL, "print completions for a shell and leave", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

const sn_option *sn_options_row(const sn_tool *tool, size_t i) {
  for (const sn_option_group *g = tool->groups; g->heading; g++)
    for (const sn_option *o = g->options; o->name; o++)
      if (i-- == 0) return o;
  for (const sn_option *o = sn_options_builtin; o->name; o++)
    if (i-- == 0) return o;
  return NULL;
}

int sn_usage_error(const sn_tool *tool, const char *fmt, ...) {
  va_list ap;
  fprintf(stderr, "%s: ", tool->name);
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fprintf(stderr, "\n%s --help lists every option\n", tool->name);
  return SN_EXIT_USAGE;
}

/* What was printed is out, or the disk is full. */
static int check_stdout(const sn_tool *tool) {
  int error = fflush(stdout) == 0 ? 0 : errno; /* an earlier write took its reason along */
  if (!error && !ferror(stdout)) return SN_EXIT_OK;
  fprintf(stderr, "%s: error: cannot write to standard output%s%s\n", tool->name, error ? ": " : "", error ? strerror(error) : "");
  return SN_EXIT_BAD;
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

/* Position of word[0, n) in "a|b|c"; -1: not there. */
static int choice_index(const char *choices, const char *word, size_t n) {
  int k = 0;
  for (const char *c = choices; c; k++) {
    const char *end = strchr(c, '|');
    size_t len = end ? (size_t)(end - c) : strlen(c);
    if (len == n && memcmp(c, word, n) == 0) return k;
    c = end ? end + 1 : NULL;
  }
  return -1;
}

static bool choices_valid(const char *choices, const char *list) {
  for (const char *w = list; *w;) {
    size_t n = strcspn(w, ",");
    if (choice_index(choices, w, n) < 0) return false;
    w += n;
    if (*w == ',') w++;
  }
  return true;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool parse_int(const char *text, int64_t *out) {
  char *end = NULL;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno) return false;
  *out = v;
  return true;
}

static bool parse_size(const char *text, int64_t *out) {
  static const char units[] = "KMGT";
  char *end = NULL;
  errno = 0;
  double v = strtod(text, &end);
  if (end == text || errno || !(v >= 0)) return false;
  const char *u = *end ? strchr(units, *end & ~0x20) : NULL;
  if (u) v = ldexp(v, 10 * (int)(u - units + 1));
  if (u) end++;
  if (end[0] == 'i' && end[1] == 'B') end += 2;
  else if (end[0] == 'B') end++;
  if (*end || v > 9e18) return false;
  *out = (int64_t)v;
  return true;
}

static bool parse_number(const char *text, double *out) {
  char *end = NULL;
  double v = strtod(text, &end);
  if (end == text || *end || !isfinite(v)) return false;
  *out = v;
  return true;
}

static int range_error(const sn_tool *t, const sn_option *o, const char *text) {
  if (o->max > 0) return sn_usage_error(t, "--%s=%s: must lie between %g and %g", o->name, text, o->min, o->max);
  return sn_usage_error(t, "--%s=%s: must be at least %g", o->name, text, o->min);
}

/* SN_EXIT_OK, or the message is out. */
static int check_value(const sn_tool *t, const sn_option *o, const char *text) {
  int64_t i = 0;
  double v = 0;
  switch (o->kind) {
    case SN_OPT_INT:
      if (!parse_int(text, &i)) return sn_usage_error(t, "--%s=%s: not a whole number", o->name, text);
      v = (double)i;
      break;
    case SN_OPT_NUMBER:
      if (!parse_number(text, &v)) return sn_usage_error(t, "--%s=%s: not a number", o->name, text);
      break;
    case SN_OPT_SIZE:
      if (parse_size(text, &i)) return SN_EXIT_OK;
      return sn_usage_error(t, "--%s=%s: not a size; write bytes, or a number with K, M, G or T", o->name, text);
    case SN_OPT_CHOICE:
      if (choice_index(o->argument, text, strlen(text)) >= 0) return SN_EXIT_OK;
      return sn_usage_error(t, "--%s=%s: unknown; choose from %s", o->name, text, o->argument);
    case SN_OPT_CHOICES:
      if (choices_valid(o->argument, text)) return SN_EXIT_OK;
      return sn_usage_error(t, "--%s=%s: unknown; choose from %s, comma separated", o->name, text, o->argument);
    default: return SN_EXIT_OK;
  }
  if (v < o->min || (o->max > 0 && v > o->max)) return range_error(t, o, text);
  return SN_EXIT_OK;
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

static option_value *find_name(const sn_options *o, const char *name, size_t n) {
  for (size_t i = 0; i < o->n_values; i++) {
    const char *have = o->values[i].option->name;
    if (strlen(have) == n && memcmp(have, name, n) == 0) return &o->values[i];
  }
  return NULL;
}

static option_value *find_letter(const sn_options *o, char letter) {
  for (size_t i = 0; i < o->n_values; i++)
    if (o->values[i].option->letter == letter) return &o->values[i];
  return NULL;
}

static bool takes_argument(const sn_option *o) { return o->kind != SN_OPT_FLAG && o->kind != SN_OPT_MAYBE; }

static int unknown_option(const sn_options *o, const char *arg, size_t n_name) {
  const char *names[256];
  char word[64];
  size_t n = 0;
  for (size_t i = 0; i < o->n_values && n < 256; i++) names[n++] = o->values[i].option->name;
  if (n_name >= sizeof word) n_name = sizeof word - 1;
  memcpy(word, arg + 2, n_name);
  word[n_name] = 0;
  const char *near = sn_nearest(word, names, n);
  if (near) return sn_usage_error(o->tool, "unknown option --%s; did you mean --%s?", word, near);
  return sn_usage_error(o->tool, "unknown option --%s", word);
}

static int set_value(sn_options *o, option_value *v, const char *text) {
  int code = text && takes_argument(v->option) ? check_value(o->tool, v->option, text) : SN_EXIT_OK;
  if (code) return code;
  v->given = true;
  v->off = false;
  v->text = text ? text : "";
  if (v->option->kind != SN_OPT_LIST) return SN_EXIT_OK;
  if (!v->texts) v->texts = SN_NEW_N(o->arena, const char *, o->argc);
  if (!v->texts) return sn_usage_error(o->tool, "out of memory");
  v->texts[v->n++] = v->text;
  return SN_EXIT_OK;
}

static int parse_long(sn_options *o, char **argv, int *i) {
  const char *arg = argv[*i], *eq = strchr(arg, '=');
  size_t n = eq ? (size_t)(eq - arg - 2) : strlen(arg) - 2;
  option_value *v = find_name(o, arg + 2, n);
  if (!v && n > 3 && strncmp(arg + 2, "no-", 3) == 0) {
    v = find_name(o, arg + 5, n - 3);
    if (!v || takes_argument(v->option) || eq) return unknown_option(o, arg, n);
    v->given = v->off = true;
    return SN_EXIT_OK;
  }
  if (!v) return unknown_option(o, arg, n);
  if (eq && v->option->kind == SN_OPT_FLAG) return sn_usage_error(o->tool, "--%s takes no argument", v->option->name);
  if (eq || !takes_argument(v->option)) return set_value(o, v, eq ? eq + 1 : NULL);
  if (*i + 1 >= o->argc) return sn_usage_error(o->tool, "--%s wants an argument: --%s=%s", v->option->name, v->option->name, v->option->argument);
  return set_value(o, v, argv[++*i]);
}

/* -o FILE, -oFILE, and flags run together: -vq. */
static int parse_short(sn_options *o, char **argv, int *i) {
  for (const char *c = argv[*i] + 1; *c; c++) {
    option_value *v = find_letter(o, *c);
    if (!v) return sn_usage_error(o->tool, "unknown option -%c", *c);
    int code;
    if (!takes_argument(v->option)) {
      code = set_value(o, v, NULL);
      if (code) return code;
      continue;
    }
    if (c[1]) return set_value(o, v, c + 1);
    if (*i + 1 >= o->argc) return sn_usage_error(o->tool, "-%c wants an argument: -%c %s", *c, *c, v->option->argument);
    return set_value(o, v, argv[++*i]);
  }
  return SN_EXIT_OK;
}

static int check_operands(const sn_options *o) {
  const sn_tool *t = o->tool;
  const char *what = t->operands ? t->operands : "argument";
  if (o->n_operands < (size_t)t->least) return sn_usage_error(t, "%s is missing", what);
  if (t->most < 0 || o->n_operands <= (size_t)t->most) return SN_EXIT_OK;
  if (t->most == 0) return sn_usage_error(t, "takes options only, found `%s`", o->operands[0]);
  return sn_usage_error(t, "one too many: `%s`", o->operands[t->most]);
}

static int parse_all(sn_options *o, char **argv) {
  bool ended = false;
  for (int i = 1; i < o->argc; i++) {
    int code = SN_EXIT_OK;
    if (ended || argv[i][0] != '-' || argv[i][1] == 0) o->operands[o->n_operands++] = argv[i];
    else if (strcmp(argv[i], "--") == 0) ended = true;
    else if (argv[i][1] == '-') code = parse_long(o, argv, &i);
    else code = parse_short(o, argv, &i);
    if (code) return code;
  }
  return SN_EXIT_OK;
}

static bool allocate(const sn_tool *tool, int argc, sn_options **out) {
  sn_options *o = sn_alloc_zero(1, sizeof *o);
  if (!o) return false;
  o->tool = tool;
  o->argc = argc;
  while (sn_options_row(tool, o->n_values)) o->n_values++;
  if (sn_arena_create(&o->arena) == SN_OK) {
    o->values = SN_NEW_N(o->arena, option_value, o->n_values);
    o->operands = SN_NEW_N(o->arena, const char *, argc + 1);
  }
  if (!o->values || !o->operands) {
    sn_options_destroy(o);
    return false;
  }
  for (size_t i = 0; i < o->n_values; i++) {
    o->values[i].option = sn_options_row(tool, i);
    o->values[i].text = o->values[i].option->dflt;
  }
  *out = o;
  return true;
}

/* True: --help and its kin were served. */
static bool serve_builtin(const sn_options *o) {
  if (sn_opt_flag(o, "help")) sn_options_print_help(o->tool, stdout);
  else if (sn_opt_flag(o, "version")) printf("%s (Sinter) " SINTER_VERSION "\n", o->tool->name);
  else if (sn_opt_flag(o, "man")) sn_options_print_man(o->tool, stdout);
  else if (sn_opt_given(o, "completion")) sn_options_print_completion(o->tool, sn_opt_text(o, "completion"), stdout);
  else return false;
  return true;
}

/* A malformed variable is as wrong as a malformed option. */
static int check_environment(const sn_tool *tool) {
  sn_diag *d = NULL;
  if (sn_diag_create(&d) != SN_OK) return sn_usage_error(tool, "out of memory");
  sn_status s = sn_env_check(d);
  int code = s == SN_OK ? SN_EXIT_OK : sn_tool_report(tool, d, s);
  sn_diag_destroy(d);
  return code;
}

int sn_options_parse(const sn_tool *tool, int argc, char **argv, sn_options **out) {
  sn_options *o = NULL;
  *out = NULL;
  signal(SIGXFSZ, SIG_IGN); /* a file over the limit is a failed write, as a full disk is */
  if (!allocate(tool, argc, &o)) return sn_usage_error(tool, "out of memory");
  int code = parse_all(o, argv);
  bool done = code == SN_EXIT_OK && serve_builtin(o);
  if (done) code = check_stdout(tool);
  if (code == SN_EXIT_OK && !done) code = check_operands(o);
  if (code == SN_EXIT_OK && !done) code = check_environment(tool);
  if (code != SN_EXIT_OK || done) {
    sn_options_destroy(o);
    return code;
  }
  *out = o;
  return SN_EXIT_OK;
}

void sn_options_destroy(sn_options *o) {
  if (!o) return;
  sn_arena_destroy(o->arena);
  sn_free(o);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static const option_value *value_of(const sn_options *o, const char *name) {
  const option_value *v = find_name(o, name, strlen(name));
  sn_assert(v);
  return v;
}

bool sn_opt_given(const sn_options *o, const char *name) { return value_of(o, name)->given; }

bool sn_opt_flag(const sn_options *o, const char *name) {
  const option_value *v = value_of(o, name);
  return v->given ? !v->off : v->text != NULL;
}

const char *sn_opt_text(const sn_options *o, const char *name) {
  const option_value *v = value_of(o, name);
  return v->off ? NULL : v->text;
}

int64_t sn_opt_int(const sn_options *o, const char *name) {
  const option_value *v = value_of(o, name);
  int64_t i = 0;
  if (!v->text) return 0;
  if (v->option->kind == SN_OPT_SIZE ? parse_size(v->text, &i) : parse_int(v->text, &i)) return i;
  return 0;
}

double sn_opt_number(const sn_options *o, const char *name) {
  const option_value *v = value_of(o, name);
  double d = 0;
  return v->text && parse_number(v->text, &d) ? d : 0;
}

int sn_opt_choice(const sn_options *o, const char *name) {
  const option_value *v = value_of(o, name);
  return v->text ? choice_index(v->option->argument, v->text, strlen(v->text)) : -1;
}

size_t sn_opt_count(const sn_options *o, const char *name) { return value_of(o, name)->n; }

const char *sn_opt_at(const sn_options *o, const char *name, size_t i) {
  const option_value *v = value_of(o, name);
  return i < v->n ? v->texts[i] : NULL;
}

size_t sn_opt_operands(const sn_options *o) { return o->n_operands; }

const char *sn_opt_operand(const sn_options *o, size_t i) { return i < o->n_operands ? o->operands[i] : NULL; }

/* ---- messages ---------------------------------------------------------------------------------------------------- */

bool sn_wants_colour(FILE *stream) {
  const char *term = sn_env("TERM");
  return isatty(fileno(stream)) && !sn_env("NO_COLOR") && (!term || strcmp(term, "dumb") != 0);
}

int sn_tool_report(const sn_tool *tool, const sn_diag *d, sn_status s) {
  if (d) sn_diag_print(d, stderr, sn_wants_colour(stderr));
  if (s == SN_OK) return check_stdout(tool);
  if (!d || sn_diag_count(d, SN_ERROR) == 0) fprintf(stderr, "%s: %s\n", tool->name, sn_status_text(s));
  return s == SN_ERR_USAGE ? SN_EXIT_USAGE : SN_EXIT_BAD;
}
