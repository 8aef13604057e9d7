/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The environment: rows of env.def, read and checked. The values are read at each call; nothing is kept. */
#include "sinter/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const sn_env_row sn_env_rows[] = {
#define SN_ENV(name, kind, choices, least, most, meaning) {name, SN_ENV_##kind, choices, least, most, meaning},
#include "env.def"
#undef SN_ENV
    {NULL, SN_ENV_TEXT, NULL, 0, 0, NULL}};

static const sn_env_row *env_row(const char *name) {
  const sn_env_row *r = sn_env_rows;
  while (r->name != NULL && strcmp(r->name, name) != 0) r++;
  sn_assert(r->name != NULL);
  return r;
}

/* Position of `word` among a|b|c; -1: not there. */
static int64_t env_choice(const char *choices, const char *word) {
  size_t n = strlen(word);
  int64_t at = 0;
  if (strchr(word, '|') != NULL) return -1;
  for (const char *c = choices; c != NULL; c = strchr(c, '|') != NULL ? strchr(c, '|') + 1 : NULL, at++) {
    if (strncmp(c, word, n) == 0 && (c[n] == '|' || c[n] == '\0')) return at;
  }
  return -1;
}

static sn_status env_value(sn_diag *d, const sn_env_row *r, const char *text, int64_t *out) {
  sn_loc loc = {r->name, 0, 0};
  if (r->kind == SN_ENV_CHOICE) {
    int64_t at = env_choice(r->choices, text);
    if (at < 0) return sn_error(d, loc, SN_ERR_USAGE, "'%s' is unknown; choose from %s", text, r->choices);
    *out = at;
  } else if (r->kind == SN_ENV_INT) {
    char *end = NULL;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0') return sn_error(d, loc, SN_ERR_USAGE, "'%s' is not a whole number", text);
    if (errno != 0 || v < r->least || v > r->most) {
      return sn_error(d, loc, SN_ERR_USAGE, "%s is out of range: from %lld to %lld", text, (long long)r->least, (long long)r->most);
    }
    *out = v;
  }
  return SN_OK;
}

sn_status sn_env_int(sn_diag *d, const char *name, int64_t *value) {
  const sn_env_row *r = env_row(name);
  const char *text = sn_env(name);
  sn_assert(r->kind != SN_ENV_TEXT);
  return text != NULL ? env_value(d, r, text, value) : SN_OK;
}

sn_status sn_env_check(sn_diag *d) {
  sn_status first = SN_OK;
  for (const sn_env_row *r = sn_env_rows; r->name != NULL; r++) {
    const char *text = sn_env(r->name);
    int64_t value;
    sn_status s = text != NULL ? env_value(d, r, text, &value) : SN_OK;
    if (first == SN_OK) first = s;
  }
  if (first != SN_OK) sn_hint(d, "a variable of the environment: correct it, or unset it");
  return first;
}

sn_log_level sn_log(void) {
  int64_t level = SN_LOG_INFO;
  if (sn_env_int(NULL, "SINTER_LOG", &level) != SN_OK) level = SN_LOG_INFO; /* as if it were unset; sn_env_check says so */
  return (sn_log_level)level;
}
