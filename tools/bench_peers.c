/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* JAX and PyTorch on the same shapes: each in a Python process of its own, whose last line is a JSON object. */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "bench.h"

typedef struct script_row {
  const char *model, *script;
} script_row;
static const script_row scripts[] = {
    {"vit-b16", "vit.py"}, {"mlp", "small.py"}, {"linear", "small.py"}, {"linear-regression", "small.py"}, {"matmul", "small.py"}, {"scalar", "small.py"},
};

static const char *find_script(const char *model) {
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
    if (strcmp(scripts[i].model, model) == 0) return scripts[i].script;
  return NULL;
}

/* 'text' for the shell, whatever is in it. */
static void add_quoted(sn_str *to, const char *text) {
  sn_str_char(to, '\'');
  for (const char *c = text; *c; c++) {
    if (*c == '\'') sn_str_add(to, "'\\''");
    else sn_str_char(to, *c);
  }
  sn_str_char(to, '\'');
}

/* Keeps the last line that is an object. */
static bool run_script(const char *command, char *line, size_t n) {
  char text[4096];
  FILE *f = popen(command, "r");
  line[0] = '\0';
  if (!f) return false;
  while (fgets(text, sizeof text, f)) {
    if (text[0] == '{') snprintf(line, n, "%s", text);
  }
  pclose(f);
  return line[0] != '\0';
}

static double number_of(const cJSON *o, const char *key) {
  const cJSON *e = cJSON_GetObjectItemCaseSensitive(o, key);
  return cJSON_IsNumber(e) ? e->valuedouble : 0;
}

static void read_answer(const char *line, bench_peer *p) {
  cJSON *root = cJSON_Parse(line);
  const cJSON *name = root ? cJSON_GetObjectItemCaseSensitive(root, "peer") : NULL, *why = root ? cJSON_GetObjectItemCaseSensitive(root, "not_run") : NULL;
  const cJSON *step = root ? cJSON_GetObjectItemCaseSensitive(root, "step_s") : NULL;
  if (cJSON_IsString(name)) snprintf(p->name, sizeof p->name, "%s", name->valuestring);
  p->compile_s = number_of(root, "compile_s");
  p->rss_peak_bytes = (int64_t)number_of(root, "rss_peak_bytes");
  p->times = (bench_times){number_of(step, "mean"), number_of(step, "best"), number_of(step, "p50"), number_of(step, "p95"), (int64_t)number_of(root, "steps"),
                           (int64_t)number_of(root, "calls")};
  if (cJSON_IsString(why)) snprintf(p->why_not, sizeof p->why_not, "%s", why->valuestring);
  else if (!(p->times.mean > 0)) snprintf(p->why_not, sizeof p->why_not, "its answer has no times");
  cJSON_Delete(root);
}

static void run_peer(const char *dir, const bench_subject *s, const bench_options *o, bench_peer *p) {
  const char *script = find_script(s->name);
  char line[4096];
  sn_str path = {0}, command = {0};
  if (!script) {
    snprintf(p->why_not, sizeof p->why_not, "there is no script for %.100s", s->name);
    return;
  }
  sn_str_printf(&path, "%s/%s", dir, script);
  if (path.failed || !sn_file_exists(path.data)) {
    snprintf(p->why_not, sizeof p->why_not, "%.150s is not there (--peers-dir)", path.data ? path.data : script);
  } else {
    int64_t warmup = o->warmup >= 0 ? o->warmup : o->steps > 20 ? 10 : o->steps / 3;
    sn_str_add(&command, "python3 ");
    add_quoted(&command, path.data);
    sn_str_char(&command, ' ');
    add_quoted(&command, p->name);
    sn_str_printf(&command, " %s %lld %lld %lld %d 2>/dev/null", s->name, (long long)s->batch, (long long)o->steps, (long long)warmup, sn_pool_threads(o->pool));
    if (command.failed || !run_script(command.data, line, sizeof line)) snprintf(p->why_not, sizeof p->why_not, "python3 gave no answer");
    else read_answer(line, p);
  }
  sn_str_finish(&path);
  sn_str_finish(&command);
}

void bench_peers_run(const char *list, const char *dir, const bench_subject *s, const bench_options *o, bench_peer *out, int *n) {
  *n = 0;
  for (const char *w = list; *w && *n < BENCH_MAX_PEERS;) {
    size_t len = strcspn(w, ",");
    bench_peer *p = &out[*n];
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%.*s", (int)len, w);
    if (len) {
      run_peer(dir, s, o, p);
      ++*n;
    }
    w += len + (w[len] == ',');
  }
}
