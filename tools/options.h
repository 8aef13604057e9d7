/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The command line of every tool: one table drives parsing, --help, --version, completions and the manual page.
 *
 *   static const sn_option own[] = {
 *       {"steps", 's', SN_OPT_INT, "N", "100", "how many steps to run", .min = 1},
 *       {"engine", 0, SN_OPT_CHOICE, "interpreter|fused", "interpreter", "what runs the program"},
 *       {0}};
 *   static const sn_option_group groups[] = {{"Options", own}, {0}};
 *   static const sn_tool tool = {"sinter-x", "does x", "FILE", 1, 1, groups, NULL};
 *
 *   int main(int argc, char **argv) {
 *     sn_options *o = NULL;
 *     int code = sn_options_parse(&tool, argc, argv, &o);
 *     if (!o) return code;
 *     …
 *     sn_options_destroy(o);
 *   }
 */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "sinter/base.h"

/* Exit codes, the same for every tool. */
enum { SN_EXIT_OK = 0, SN_EXIT_BAD = 1 /* bad input, a comparison or check failed */, SN_EXIT_USAGE = 2 };

typedef enum sn_option_kind {
  SN_OPT_FLAG,     /* takes no argument; --no-NAME takes it back */
  SN_OPT_TEXT,     /* any text */
  SN_OPT_MAYBE,    /* --NAME or --NAME=TEXT; the argument only with `=` */
  SN_OPT_CHOICE,   /* one of the words of `argument`, written a|b|c */
  SN_OPT_CHOICES,  /* several of them, comma separated, or none */
  SN_OPT_INT,      /* a whole number within [min, max]; max 0: no upper bound */
  SN_OPT_NUMBER,   /* a decimal number within [min, max]; max 0: no upper bound */
  SN_OPT_SIZE,     /* bytes, with K, M, G, T (powers of 1024) */
  SN_OPT_LIST      /* text; may be given several times */
} sn_option_kind;

typedef struct sn_option {
  const char *name;     /* without the dashes; NULL ends a table */
  char letter;          /* short form, 0: none */
  sn_option_kind kind;
  const char *argument; /* how the argument is called in the help, or its choices; NULL for flags */
  const char *dflt;     /* as it would be written; NULL: none */
  const char *help;     /* one sentence, no full stop */
  double min, max;      /* INT and NUMBER */
} sn_option;

typedef struct sn_option_group {
  const char *heading; /* NULL ends the list */
  const sn_option *options;
} sn_option_group;

typedef struct sn_tool {
  const char *name, *what;       /* "sinter-opt", "HLO in, HLO out, through passes" */
  const char *operands;          /* "FILE…", or NULL when it takes none */
  int least, most;               /* operands; most -1: any number */
  const sn_option_group *groups; /* names and letters are unique over all groups */
  const char *notes;             /* paragraphs behind the options in --help and the manual page; or NULL */
} sn_tool;

typedef struct sn_options sn_options;

/* Reads the command line. *out NULL: there is nothing more to do and the result is the exit code: SN_EXIT_OK after --help, --version, --man or
 * --completion=SHELL (printed to stdout), SN_EXIT_USAGE after a message on stderr. Arguments are borrowed from argv.
 * Options and operands may be mixed; `--` ends the options; `-` is an operand. */
int sn_options_parse(const sn_tool *tool, int argc, char **argv, sn_options **out);
void sn_options_destroy(sn_options *o);

/* Values by long name; asking for a name that is not in the table is our bug. What was given last counts. */
bool sn_opt_given(const sn_options *o, const char *name);       /* on the command line */
bool sn_opt_flag(const sn_options *o, const char *name);
const char *sn_opt_text(const sn_options *o, const char *name); /* given or default; NULL: neither (MAYBE without `=`: "") */
int64_t sn_opt_int(const sn_options *o, const char *name);      /* INT, SIZE; 0 when neither */
double sn_opt_number(const sn_options *o, const char *name);    /* NUMBER, INT; 0 when neither */
int sn_opt_choice(const sn_options *o, const char *name);       /* position among the choices; -1 when neither */
size_t sn_opt_count(const sn_options *o, const char *name);     /* LIST: how many were given */
const char *sn_opt_at(const sn_options *o, const char *name, size_t i);
size_t sn_opt_operands(const sn_options *o);
const char *sn_opt_operand(const sn_options *o, size_t i);

/* `NAME: message` and the way to --help on stderr; returns SN_EXIT_USAGE. For combinations that a table cannot forbid. */
int sn_usage_error(const sn_tool *tool, const char *fmt, ...) SN_PRINTF(2, 3);

void sn_options_print_help(const sn_tool *tool, FILE *to);
void sn_options_print_man(const sn_tool *tool, FILE *to);                           /* roff */
bool sn_options_print_completion(const sn_tool *tool, const char *shell, FILE *to); /* bash, zsh, fish; false: another */

/* Is `stream` a terminal that wants colour (NO_COLOR unset, TERM not dumb)? */
bool sn_wants_colour(FILE *stream);
/* Prints what d holds to stderr and gives the exit code for s: 0, or 2 for SN_ERR_USAGE, else 1. A failure without any message prints the status. */
int sn_tool_report(const sn_tool *tool, const sn_diag *d, sn_status s);

/* Rows shared by the tools that run modules; see engine.h. */
extern const sn_option sn_options_engine[];

#endif
