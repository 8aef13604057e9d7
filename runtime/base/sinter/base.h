/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Status, diagnostics, memory, strings, hashing, threads and the operating system: what every room stands on. */
#ifndef SINTER_BASE_H
#define SINTER_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The only place that names compiler extensions. */
#if defined(__GNUC__) || defined(__clang__)
#define SN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SN_NODISCARD __attribute__((warn_unused_result))
#define SN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SN_API __attribute__((visibility("default")))
#else
#define SN_PRINTF(fmt, args)
#define SN_NODISCARD
#define SN_UNLIKELY(x) (x)
#define SN_API
#endif

/* ---- status ------------------------------------------------------------------------------------------------- */

/* One row per status in statuses.def: SN_STATUS(ID, "text", "meaning"). */
typedef enum sn_status {
#define SN_STATUS(id, text, meaning) SN_##id,
#include "sinter/statuses.def"
#undef SN_STATUS
  SN_STATUS_COUNT
} sn_status;

/* The row's text ("shape error"); never NULL, also for values outside the enum. */
const char *sn_status_text(sn_status s);

#define SN_TRY(expr)                        \
  do {                                      \
    sn_status sn_try_ = (expr);             \
    if (sn_try_ != SN_OK) return sn_try_;   \
  } while (0)

/* For our own bugs alone, never for user input. Prints file:line and aborts in builds with assertions; removed by -DNDEBUG. */
#ifdef NDEBUG
#define sn_assert(x) ((void)0)
#else
void sn_assert_failed(const char *file, int line, const char *what);
#define sn_assert(x) ((x) ? (void)0 : sn_assert_failed(__FILE__, __LINE__, #x))
#endif

/* ---- diagnostics --------------------------------------------------------------------------------------------- */

/* A place in a text or in the caller's C source. `file` may be NULL (unknown); line and col count from 1, 0 = unknown.
 * The struct does not own `file`: it lives in a module's arena, a source text's owner, or is a string literal. */
typedef struct sn_loc {
  const char *file;
  uint32_t line;
  uint32_t col;
} sn_loc;

typedef enum sn_severity { SN_NOTE, SN_WARNING, SN_ERROR } sn_severity;

typedef struct sn_diagnostic {
  sn_severity severity;
  sn_status status;
  sn_loc loc;
  const char *message; /* one line, no trailing newline */
  const char *hint;    /* or NULL */
  const char *context; /* the source line the location points at, or NULL */
} sn_diagnostic;

/* Collects diagnostics in order. Passing NULL wherever a `sn_diag *` is taken drops messages and keeps statuses.
 * Not thread-safe: one a thread. Strings handed in are copied. When memory for a message lacks, the message is dropped, the count kept. */
typedef struct sn_diag sn_diag;

SN_NODISCARD sn_status sn_diag_create(sn_diag **out);
void sn_diag_destroy(sn_diag *d);
/* Lets later diagnostics whose loc.file equals `name` show their source line. `text` must outlive the calls that report. */
void sn_diag_set_source(sn_diag *d, const char *name, const char *text, size_t n_bytes);
/* Faults beyond this many are counted, not stored (default 100). */
void sn_diag_set_limit(sn_diag *d, size_t n);
size_t sn_diag_count(const sn_diag *d, sn_severity at_least);
size_t sn_diag_stored(const sn_diag *d);
const sn_diagnostic *sn_diag_get(const sn_diag *d, size_t index);
void sn_diag_clear(sn_diag *d);
/* What SINTER_LOG says is shown. */
typedef enum sn_log_level { SN_LOG_ERROR, SN_LOG_WARN, SN_LOG_INFO, SN_LOG_DEBUG } sn_log_level;
sn_log_level sn_log(void); /* INFO unless SINTER_LOG names another */
/* `file:line:col: error: message`, the source line, a caret, `hint: …`; colour when asked. What lies below SINTER_LOG is left out. */
void sn_diag_print(const sn_diag *d, FILE *to, bool colour);

/* Reports and returns `status`, so that a caller can write `return sn_error(d, loc, SN_ERR_SHAPE, "…", …);`. */
sn_status sn_error(sn_diag *d, sn_loc loc, sn_status status, const char *fmt, ...) SN_PRINTF(4, 5);
sn_status sn_verror(sn_diag *d, sn_loc loc, sn_status status, const char *fmt, va_list ap) SN_PRINTF(4, 0);
void sn_warn(sn_diag *d, sn_loc loc, const char *fmt, ...) SN_PRINTF(3, 4);
void sn_note(sn_diag *d, sn_loc loc, const char *fmt, ...) SN_PRINTF(3, 4);
/* Adds a hint to the latest diagnostic. */
void sn_hint(sn_diag *d, const char *fmt, ...) SN_PRINTF(2, 3);
/* Reports "out of memory" with the bytes wanted and returns SN_ERR_MEMORY. */
sn_status sn_out_of_memory(sn_diag *d, size_t bytes);

#define SN_NOWHERE ((sn_loc){NULL, 0, 0})
#define SN_HERE ((sn_loc){__FILE__, __LINE__, 0})

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* malloc and friends behind one hook; NULL when memory lacks. Size 0 gives a unique pointer. */
void *sn_alloc(size_t bytes);
void *sn_alloc_zero(size_t n, size_t bytes_each); /* overflow of the product gives NULL */
void *sn_realloc(void *p, size_t bytes);
void sn_free(void *p);
/* `alignment` a power of two, at most 2 MiB; freed by sn_free_aligned. */
void *sn_alloc_aligned(size_t alignment, size_t bytes);
void sn_free_aligned(void *p);

/* The test hook: after `n` more allocations of this process every one fails (n < 0: never). Returns how many were made since the last call.
 * The one piece of process-wide state in the house; production code never sets it. */
int64_t sn_alloc_fail_after(int64_t n);
/* Live allocations (sn_alloc*, not arenas' inner pieces): leak checks in tests. */
int64_t sn_alloc_live(void);

/* Bump allocator; everything goes at once. Allocations are 16-byte aligned. */
typedef struct sn_arena sn_arena;
SN_NODISCARD sn_status sn_arena_create(sn_arena **out);
void sn_arena_destroy(sn_arena *a);
void sn_arena_reset(sn_arena *a); /* keeps the largest block */
void *sn_arena_alloc(sn_arena *a, size_t bytes);                       /* uninitialised; NULL when memory lacks */
void *sn_arena_zero(sn_arena *a, size_t n, size_t bytes_each);         /* zeroed, overflow-checked */
void *sn_arena_copy(sn_arena *a, const void *from, size_t bytes);      /* memcpy into the arena */
char *sn_arena_string(sn_arena *a, const char *s);                     /* NULL stays NULL */
char *sn_arena_string_n(sn_arena *a, const char *s, size_t n);         /* adds the NUL */
char *sn_arena_printf(sn_arena *a, const char *fmt, ...) SN_PRINTF(2, 3);
size_t sn_arena_bytes(const sn_arena *a); /* reserved from the system */
#define SN_NEW(arena, type) ((type *)sn_arena_zero((arena), 1, sizeof(type)))
#define SN_NEW_N(arena, type, n) ((type *)sn_arena_zero((arena), (size_t)(n), sizeof(type)))

/* Checked arithmetic: false on overflow, *out untouched. */
bool sn_mul_i64(int64_t a, int64_t b, int64_t *out);
bool sn_add_i64(int64_t a, int64_t b, int64_t *out);

/* ---- strings ------------------------------------------------------------------------------------------------- */

/* Growing text. Zero-initialise; `failed` sticks when memory lacks, so one check at the end serves. */
typedef struct sn_str {
  char *data; /* NUL-terminated once anything was added */
  size_t n, cap;
  bool failed;
} sn_str;
void sn_str_finish(sn_str *s);
void sn_str_clear(sn_str *s);
void sn_str_add(sn_str *s, const char *text);
void sn_str_add_n(sn_str *s, const char *text, size_t n);
void sn_str_char(sn_str *s, char c);
void sn_str_printf(sn_str *s, const char *fmt, ...) SN_PRINTF(2, 3);
void sn_str_i64(sn_str *s, int64_t v);
void sn_str_u64(sn_str *s, uint64_t v);
/* Adds with C escapes for " ' \ and control bytes, as XLA's CEscape does (octal for other bytes when `utf8_ok` is false). */
void sn_str_escaped(sn_str *s, const char *text, size_t n, bool utf8_ok);
/* Is [text, text+n) valid UTF-8? *bad_at gets the offset of the first bad byte. */
bool sn_utf8_valid(const char *text, size_t n, size_t *bad_at);
/* The nearest of `candidates` (n of them) to `word` by edit distance, for "did you mean"; NULL when none is near. */
const char *sn_nearest(const char *word, const char *const *candidates, size_t n);

/* ---- hashing ------------------------------------------------------------------------------------------------- */

uint64_t sn_hash(const void *data, size_t bytes, uint64_t seed); /* xxHash64; stable across runs and machines */
uint64_t sn_hash_mix(uint64_t h, uint64_t v);

/* Map from byte strings (or 64-bit keys) to pointer-sized values. Iteration is in order of insertion, never of hash. Keys are copied. */
typedef struct sn_map sn_map;
SN_NODISCARD sn_status sn_map_create(sn_map **out);
void sn_map_destroy(sn_map *m);
void sn_map_clear(sn_map *m);
SN_NODISCARD sn_status sn_map_set(sn_map *m, const void *key, size_t key_bytes, uint64_t value); /* replaces */
bool sn_map_get(const sn_map *m, const void *key, size_t key_bytes, uint64_t *value);
bool sn_map_erase(sn_map *m, const void *key, size_t key_bytes);
SN_NODISCARD sn_status sn_map_set_str(sn_map *m, const char *key, void *value);
void *sn_map_get_str(const sn_map *m, const char *key); /* NULL when absent */
SN_NODISCARD sn_status sn_map_set_u64(sn_map *m, uint64_t key, void *value);
void *sn_map_get_u64(const sn_map *m, uint64_t key);
size_t sn_map_count(const sn_map *m);
/* i in [0, number of insertions): false where the entry was erased. Key pointer valid until the next change. */
size_t sn_map_slots(const sn_map *m);
bool sn_map_at(const sn_map *m, size_t i, const void **key, size_t *key_bytes, uint64_t *value);

/* ---- threads ------------------------------------------------------------------------------------------------- */

/* The one thread pool. Workers spin briefly for the next job, then sleep. Items of a job are fixed beforehand and claimed dynamically,
 * so results may depend on the item index alone, never on the thread. */
typedef struct sn_pool sn_pool;
typedef void (*sn_pool_fn)(void *ctx, int64_t item, int worker); /* worker in [0, n_threads) */
/* n_threads counts the caller of sn_pool_run; 0: SINTER_THREADS, else the CPUs this process may use (affinity, cgroup quota).
 * A thread that cannot be made is SN_ERR_UNAVAILABLE with nothing left behind; a malformed SINTER_THREADS, where it is asked, SN_ERR_USAGE (sn_env_check says why). */
SN_NODISCARD sn_status sn_pool_create(int n_threads, sn_pool **out);
void sn_pool_destroy(sn_pool *p);
int sn_pool_threads(const sn_pool *p); /* NULL: 1 */
/* How often sn_pool_run has asked the system to wake workers since the pool was made: each time costs both sides microseconds. NULL: 0. */
int64_t sn_pool_wakes(const sn_pool *p);
/* Does every worker spin at the moment, so that a job of a microsecond is worth sharing? False when one sleeps, or there is none. */
bool sn_pool_is_awake(const sn_pool *p);
/* Runs fn(ctx, i, worker) for i in [0, n) and returns when all are done. Runs inline when p is NULL, has one thread, n < 2,
 * or when called from inside one of its own items. One job at a time: further callers wait. */
void sn_pool_run(sn_pool *p, int64_t n, sn_pool_fn fn, void *ctx);
/* Low-priority background work (data loading): own threads, started at the first call; never joined by sn_pool_run.
 * Returns SN_ERR_UNAVAILABLE when no thread can be had; then call fn yourself. sn_pool_destroy waits for what runs and drops what waits. */
SN_NODISCARD sn_status sn_pool_background(sn_pool *p, void (*fn)(void *ctx), void *ctx);

/* ---- operating system ------------------------------------------------------------------------------------------ */

int sn_cpu_count(void); /* usable by this process: affinity and cgroup quota */
double sn_time(void);   /* monotonic, seconds */
const char *sn_env(const char *name); /* NULL when unset or empty */

/* The variables that Sinter reads: rows of env.def, behind the last one a row without a name. */
typedef enum sn_env_kind { SN_ENV_TEXT, SN_ENV_INT, SN_ENV_CHOICE } sn_env_kind;
typedef struct sn_env_row {
  const char *name;
  sn_env_kind kind;
  const char *choices; /* CHOICE: "a|b|c" */
  int64_t least, most; /* INT */
  const char *meaning; /* one sentence, no full stop */
} sn_env_row;
extern const sn_env_row sn_env_rows[];
/* The value of an INT, or the position of a CHOICE, from 0; *value stays as it is when the variable is unset. SN_ERR_USAGE, with the variable as the message's place. */
SN_NODISCARD sn_status sn_env_int(sn_diag *d, const char *name, int64_t *value);
/* Looks at every row and reports each that is malformed: SN_ERR_USAGE. For tools at their start, and for programs that embed Sinter. */
SN_NODISCARD sn_status sn_env_check(sn_diag *d);

typedef struct sn_file_map {
  const uint8_t *data;
  size_t n_bytes;
  void *handle; /* NULL: nothing to unmap (empty file) */
} sn_file_map;
/* Maps a file read-only. SN_ERR_IO with errno's text on d. */
SN_NODISCARD sn_status sn_file_map_open(sn_diag *d, const char *path, sn_file_map *out);
void sn_file_map_close(sn_file_map *m);
/* Reads a whole file ("-": standard input), NUL-terminated behind n_bytes; *out freed by sn_free. */
SN_NODISCARD sn_status sn_file_read(sn_diag *d, const char *path, char **out, size_t *n_bytes);
/* Writes to a temporary beside `path`, fsyncs, renames: `path` holds the old content or the new, never a part ("-": standard output). */
SN_NODISCARD sn_status sn_file_write(sn_diag *d, const char *path, const void *data, size_t n_bytes);
/* The same for content produced in pieces: write() returns false when it failed (errno set). */
typedef sn_status (*sn_file_writer)(void *ctx, FILE *to);
SN_NODISCARD sn_status sn_file_write_with(sn_diag *d, const char *path, sn_file_writer fn, void *ctx);
/* Adds to the end, in one write where the system does so; the file is made when it is missing. What was added before a failure stays. */
SN_NODISCARD sn_status sn_file_append(sn_diag *d, const char *path, const void *data, size_t n_bytes);
/* Maps the file's first page as code, for as long as the process lives: how `perf record` learns of a jitdump file. */
SN_NODISCARD sn_status sn_file_mark(sn_diag *d, const char *path);
int64_t sn_process_id(void);
bool sn_file_exists(const char *path);
SN_NODISCARD sn_status sn_dir_make(sn_diag *d, const char *path); /* with parents; an existing one is fine */
/* The same for its owner alone; an existing one that another user owns, or that others may write, is SN_ERR_IO. */
SN_NODISCARD sn_status sn_dir_make_private(sn_diag *d, const char *path);
/* A new directory PARENT/NAME.N, N the first number from 0 that is free, with its parents; two who ask at once get two. Its path to `to`. */
SN_NODISCARD sn_status sn_dir_make_next(sn_diag *d, const char *parent, const char *name, char *to, size_t n_bytes);
/* Sorted names (no . and ..), in the arena. */
SN_NODISCARD sn_status sn_dir_list(sn_diag *d, sn_arena *a, const char *path, const char *const **names, size_t *n);
SN_NODISCARD sn_status sn_file_remove(sn_diag *d, const char *path); /* a missing one is fine */

/* Anonymous memory with huge pages where allowed, zeroed; NULL when memory lacks. */
void *sn_pages_alloc(size_t bytes);
void sn_pages_free(void *p, size_t bytes);
/* The most memory this process has held at a time (resident, bytes; 0: not known here), and a fresh start of that count: false where the system has none. */
int64_t sn_memory_peak(void);
bool sn_memory_peak_reset(void);
/* Writable first, then made executable by sn_code_seal; no page is ever both. */
void *sn_code_alloc(size_t bytes);
SN_NODISCARD sn_status sn_code_seal(void *p, size_t bytes);
void sn_code_free(void *p, size_t bytes);

/* dlopen behind a status; names tried in order. */
typedef struct sn_library sn_library;
SN_NODISCARD sn_status sn_library_open(sn_diag *d, const char *const *names, size_t n, sn_library **out);
void *sn_library_symbol(sn_library *l, const char *name); /* NULL when absent */
void sn_library_close(sn_library *l);
/* Frees the handle alone; the library stays loaded as long as the process lives, for those that cannot be unloaded and keep memory of their own. */
void sn_library_keep(sn_library *l);

#ifdef __cplusplus
}
#endif
#endif
