/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The command line: each line of the input is an argument. */
#include <string.h>

#include "fuzz.h"
#include "options.h"

static const sn_option rows[] = {
    {.name = "flag", .letter = 'f', .kind = SN_OPT_FLAG, .help = "a flag"},
    {.name = "text", .letter = 't', .kind = SN_OPT_TEXT, .argument = "TEXT", .dflt = "none", .help = "a text"},
    {.name = "maybe", .kind = SN_OPT_MAYBE, .argument = "REGEX", .help = "perhaps a text"},
    {.name = "choice", .letter = 'c', .kind = SN_OPT_CHOICE, .argument = "red|green|blue", .dflt = "red", .help = "one of them"},
    {.name = "choices", .kind = SN_OPT_CHOICES, .argument = "a|bb|ccc", .help = "some of them"},
    {.name = "int", .letter = 'n', .kind = SN_OPT_INT, .argument = "N", .dflt = "7", .help = "a whole number", .min = 1, .max = 100},
    {.name = "number", .kind = SN_OPT_NUMBER, .argument = "X", .dflt = "0.5", .help = "a number", .min = -1},
    {.name = "size", .kind = SN_OPT_SIZE, .argument = "SIZE", .dflt = "1M", .help = "bytes"},
    {.name = "list", .letter = 'l', .kind = SN_OPT_LIST, .argument = "X", .help = "several"},
    {0}};
static const sn_option_group groups[] = {{"Options", rows}, {0}};
static const sn_tool tool = {"fuzz", "takes anything", "FILE…", 0, 3, groups, "Notes."};

static void read_all(const sn_options *o) {
  for (const sn_option *r = rows; r->name; r++) (void)sn_opt_given(o, r->name);
  (void)sn_opt_flag(o, "flag");
  (void)sn_opt_text(o, "text");
  (void)sn_opt_text(o, "maybe");
  int choice = sn_opt_choice(o, "choice");
  int64_t n = sn_opt_int(o, "int"), size = sn_opt_int(o, "size");
  FUZZ_CHECK(choice >= 0 && choice < 3, "choice %d", choice);
  FUZZ_CHECK(n >= 1 && n <= 100, "int %lld", (long long)n);
  FUZZ_CHECK(size >= 0, "size %lld", (long long)size);
  FUZZ_CHECK(sn_opt_number(o, "number") >= -1, "number below its bound, or none");
  for (size_t k = 0; k < sn_opt_count(o, "list"); k++) FUZZ_CHECK(sn_opt_at(o, "list", k) != NULL, "list");
  FUZZ_CHECK(sn_opt_operands(o) <= 3, "too many operands");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  enum { MOST = 32 };
  char name[] = "fuzz", *argv[MOST + 1] = {name}, *text = malloc(n_bytes + 1);
  int argc = 1;
  if (!text) return 0;
  memcpy(text, data, n_bytes);
  text[n_bytes] = '\0';
  for (char *line = text; line && argc < MOST;) {
    char *end = strchr(line, '\n');
    if (end) *end++ = '\0';
    argv[argc++] = line;
    line = end;
  }
  sn_options *o = NULL;
  int code = sn_options_parse(&tool, argc, argv, &o);
  FUZZ_CHECK(o || code == SN_EXIT_OK || code == SN_EXIT_USAGE, "exit code %d", code);
  if (o) read_all(o);
  sn_options_destroy(o);
  free(text);
  return 0;
}
