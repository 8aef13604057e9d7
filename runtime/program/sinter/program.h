/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The executable: buffers, commands, code, constants; reader, writer; execution contexts and the executor.
 * Knows neither HLO nor LLVM. A program is immutable and shared by reference count; it holds native code and is trusted like a shared library.
 *
 * A program's memory: arguments (bound by the caller), results (bound by the caller, or made), constants (in the program), one arena of temporaries and workspaces
 * (made with the context). A slice is an allocation, an offset and a size. */
#ifndef SINTER_PROGRAM_H
#define SINTER_PROGRAM_H

#include "sinter/array.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SN_PROGRAM_ABI 5

/* ---- how a kernel is called ---------------------------------------------------------------------------------------------- */

/* What a kernel function gets beside its items. */
typedef struct sn_kernel_env {
  void *const *buffers;        /* one pointer per argument buffer of the kernel, in its order */
  void *scratch;               /* this worker's scratch, 64-byte aligned, at least the kernel's scratch_bytes */
  const void *const *imports;  /* the table of imports.def: what generated code may call */
} sn_kernel_env;
/* Runs items [begin, end) of one phase. */
typedef void (*sn_kernel_fn)(const sn_kernel_env *env, int64_t begin, int64_t end);

/* ---- making a program (the compiler's side) --------------------------------------------------------------------------------- */

typedef enum sn_allocation_kind { SN_ALLOCATION_ARGUMENT, SN_ALLOCATION_RESULT, SN_ALLOCATION_CONSTANT, SN_ALLOCATION_ARENA } sn_allocation_kind;

/* A piece of memory: `index` says which argument leaf, result leaf or constant; 0 for the arena. */
typedef struct sn_slice {
  sn_allocation_kind kind;
  uint32_t index;
  int64_t offset, bytes;
} sn_slice;

typedef struct sn_program_phase {
  int64_t code_offset;  /* of the phase's sn_kernel_fn in the code section; 0 on a device */
  int64_t n_items;
  int64_t cost_ns;      /* an item's estimated cost, 0: unknown */
  /* device programs: the function in the kernel's module and how it is launched */
  const char *entry;
  uint32_t threads;     /* of a block */
  int64_t blocks, shared_bytes;
  bool takes_scratch;   /* an argument behind the buffers is the kernel's scratch */
  int64_t n_tickets;    /* its last argument are so many counters of 32 bits, zero before and after; 0: none */
} sn_program_phase;

typedef struct sn_program_kernel {
  const char *name;
  int n_phases;
  const sn_program_phase *phases;
  int n_buffers;
  int64_t scratch_bytes; /* CPU: a worker's; device: of the whole launch */
  /* device programs: the module's two forms in the code section (ptx ends with a NUL; either may be empty) */
  int64_t ptx_offset, ptx_bytes, cubin_offset, cubin_bytes;
} sn_program_kernel;

typedef enum sn_command_kind {
  SN_COMMAND_KERNEL,      /* kernel, slices: its buffers */
  SN_COMMAND_COPY,        /* slices[0] := slices[1] */
  SN_COMMAND_FILL,        /* slices[0] := repeat of `pattern` (bytes 1, 2, 4, 8) */
  SN_COMMAND_WHILE,       /* runs [first, first + n_condition) , then while the pred at slices[0] holds: [.. body ..], condition again */
  SN_COMMAND_CONDITIONAL, /* slices[0]: s32 index or pred (index_is_pred); ranges: one per branch */
  SN_COMMAND_LIBRARY,     /* target: a row of library.def, config: its arguments; kernel, slices: a kernel that does the same, for where the library is missing */
  SN_COMMAND_CUSTOM_CALL, /* target name, slices: operands then results, shapes beside; hlo: the call as a module */
  SN_COMMAND_COLLECTIVE,  /* meets the other devices of the run */
  SN_COMMAND_INTERPRET,   /* an instruction that has no code, for a host that has an interpreter: hlo; slices and shapes as a custom call's */
  SN_COMMAND_COUNT
} sn_command_kind;

typedef struct sn_command_range { uint32_t first, n; } sn_command_range;

typedef struct sn_command {
  sn_command_kind kind;
  const char *name;             /* HLO instruction, for errors and profiles */
  uint32_t kernel;              /* KERNEL */
  uint32_t n_slices;
  const sn_slice *slices;
  uint64_t pattern;             /* FILL */
  uint32_t pattern_bytes;
  bool index_is_pred;           /* CONDITIONAL */
  uint32_t n_ranges;            /* WHILE: condition, body; CONDITIONAL: branches. Ranges lie behind the command and are skipped by the outer walk */
  const sn_command_range *ranges;
  const char *target;           /* CUSTOM_CALL, LIBRARY */
  const char *config;           /* their attributes as text */
  const char *hlo;              /* CUSTOM_CALL, INTERPRET: the instruction as a module of its own, a parameter an operand */
  const sn_shape *const *shapes;/* CUSTOM_CALL: one per slice */
  int64_t flops, bytes;         /* for profiles */
} sn_command;

typedef struct sn_program_leaf {
  const char *name;             /* "arg0", or the tree's name */
  const sn_shape *shape;        /* with layout */
  int64_t donated_to;           /* arguments: the result leaf that lives in its buffer (input_output_alias); -1: none */
  int64_t alias_of;             /* results: the argument leaf whose buffer it is; -1: none */
} sn_program_leaf;

/* What sn_program_build copies into one image. */
typedef struct sn_program_spec {
  size_t struct_size;
  const char *name, *target;    /* "x86-64-v4" …: refused by a CPU that lacks it; "sm_90a" … */
  const char *device;           /* driver that runs it: "cuda"; NULL: the host */
  const char *const *isa;       /* feature names the code needs ("avx512f"); ends with NULL */
  uint32_t n_arguments, n_results, n_constants, n_kernels, n_commands;
  const sn_program_leaf *arguments, *results;
  sn_array *const *constants;   /* page-aligned in the file; leaf arrays in physical order */
  const sn_program_kernel *kernels;
  const sn_command *commands;
  int64_t arena_bytes;
  const void *code;
  int64_t code_bytes;
  bool result_is_tuple;
} sn_program_spec;

typedef struct sn_program sn_program;
/* For any processor: whether this one can run it is asked when a context is made, or a file is read. */
SN_NODISCARD sn_status sn_program_build(sn_diag *d, const sn_program_spec *s, sn_program **out);
sn_program *sn_program_retain(sn_program *p);
void sn_program_release(sn_program *p);
/* One file (.sntr): versioned header, checksum, sections; memory-mapped by the reader, verified before use: torn, malformed, wrong-ISA, wrong-version files are refused. */
SN_NODISCARD sn_status sn_program_write(sn_diag *d, const sn_program *p, const char *path);
SN_NODISCARD sn_status sn_program_read(sn_diag *d, const char *path, sn_program **out);
SN_NODISCARD sn_status sn_program_read_memory(sn_diag *d, const char *name, const void *data, size_t n_bytes, sn_program **out);
bool sn_program_is(const void *data, size_t n_bytes); /* does it begin like one? */
void sn_program_print(sn_str *to, const sn_program *p); /* the text form: `sinter-dump --stage=program` */

uint32_t sn_program_n_arguments(const sn_program *p);
uint32_t sn_program_n_results(const sn_program *p);
bool sn_program_result_is_tuple(const sn_program *p); /* of its results; else it has one at most */
const sn_program_leaf *sn_program_argument(const sn_program *p, uint32_t i);
const sn_program_leaf *sn_program_result(const sn_program *p, uint32_t i);
int64_t sn_program_arena_bytes(const sn_program *p);
uint32_t sn_program_n_commands(const sn_program *p);
const char *sn_program_name(const sn_program *p);
const char *sn_program_target(const sn_program *p); /* as the compiler was asked; or NULL */
const void *sn_program_image(const sn_program *p, size_t *n_bytes); /* what sn_program_write writes; lives as long as the program */
/* The host's code, executable, where it lies as long as the program lives; NULL: none. */
const void *sn_program_code(const sn_program *p, size_t *n_bytes);
/* Code of a device program's kernel; false: the host's, or out of range. Lives as long as the program. */
typedef struct sn_program_module { const char *name, *ptx; const void *cubin; size_t cubin_bytes; } sn_program_module;
uint32_t sn_program_n_kernels(const sn_program *p);
bool sn_program_kernel_module(const sn_program *p, uint32_t kernel, sn_program_module *out);
const char *sn_program_device(const sn_program *p); /* NULL: the host */

/* ---- running ------------------------------------------------------------------------------------------------------------- */

typedef struct sn_context sn_context;
typedef struct sn_context_options {
  size_t struct_size;
  sn_pool *pool;            /* borrowed; NULL: the caller's thread alone */
  int device, n_devices;    /* for collectives; 0 of 1 */
  void (*on_command)(void *ctx, uint32_t command, const sn_command *c, double seconds); /* profile; NULL: none */
  void *on_command_ctx;
  /* Runs CUSTOM_CALL and INTERPRET commands; buffers: one a slice. NULL: such a command fails. */
  sn_status (*custom_call)(void *ctx, sn_diag *d, const sn_command *c, void *const *buffers);
  void *custom_call_ctx;
} sn_context_options;
void sn_context_options_init(sn_context_options *o);
/* Makes arena and scratch; running allocates nothing. Used by one call at a time. */
SN_NODISCARD sn_status sn_context_create(sn_diag *d, sn_program *p, const sn_context_options *o, sn_context **out);
void sn_context_destroy(sn_context *c);
/* arguments[i], results[i]: memory of the leaf's bytes, 64-byte aligned, physical order. A result that aliases an argument must be bound to the same pointer. */
SN_NODISCARD sn_status sn_context_run(sn_diag *d, sn_context *c, void *const *arguments, void *const *results);
/* Arrays in and out: shapes checked, results made (or the donated argument's array reused when it is unique). results[i] owned by the caller. */
SN_NODISCARD sn_status sn_context_call(sn_diag *d, sn_context *c, sn_array *const *arguments, sn_array **results);
/* From another thread: the run ends soon with SN_ERR_CANCELLED. */
void sn_context_cancel(sn_context *c);

#ifdef __cplusplus
}
#endif
#endif
