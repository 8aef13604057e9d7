/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the three parts of the stand-in CUDA driver share: the driver's entry points (driver*.c), the PTX reader (ptx*.c), the interpreter (exec*.c).
 *
 * A module is read once into decoded instructions: registers are places in a warp's register file, labels are indices, a branch knows where its lanes meet again.
 * The register file is a structure of arrays: a register is 32 lanes side by side (u16[32], u32[32], u64[32]; a predicate is one 32-bit mask). An operand is a byte
 * offset into that file, or, with EMU_CONSTANT set, into the function's table of immediates, which holds each one 32 times: no instruction asks what its operands are.
 *
 * Source of the semantics: NVIDIA's "PTX ISA" 9.0. */
#ifndef SINTER_EMU_H
#define SINTER_EMU_H

#include "sinter/base.h"

/* Static shared memory begins at 0, dynamic at EMU_DYNAMIC_AT: a device gives no more than that statically. */
enum { EMU_DYNAMIC_AT = 48 << 10 };
enum { EMU_LANES = 32, EMU_MAX_WARPS = 32, EMU_BARRIERS = 16, EMU_MAX_STACK = 512, EMU_MAX_CALLS = 32 };
#define EMU_FULL 0xffffffffu
#define EMU_CONSTANT 0x80000000u
#define EMU_NOWHERE 0xffffffffu /* an operand or index that is not there */

/* Where generic addresses lie. Device memory is one reservation: address = EMU_GLOBAL_BASE + offset. Device code that follows a host pointer faults. */
#define EMU_SHARED_WINDOW 0x0000100000000000ull
#define EMU_LOCAL_WINDOW 0x0000200000000000ull
#define EMU_WINDOW_BYTES 0x0000000010000000ull
#define EMU_GLOBAL_BASE 0x0000700000000000ull

/* ---- types and modifiers of instructions ---- */

/* EMU_TYPE(id, "text", bytes): bytes 0 is a predicate. */
#define EMU_TYPES(EMU_TYPE)                                                                                                             \
  EMU_TYPE(B8, "b8", 1) EMU_TYPE(B16, "b16", 2) EMU_TYPE(B32, "b32", 4) EMU_TYPE(B64, "b64", 8) EMU_TYPE(B128, "b128", 16)              \
  EMU_TYPE(U8, "u8", 1) EMU_TYPE(U16, "u16", 2) EMU_TYPE(U32, "u32", 4) EMU_TYPE(U64, "u64", 8)                                         \
  EMU_TYPE(S8, "s8", 1) EMU_TYPE(S16, "s16", 2) EMU_TYPE(S32, "s32", 4) EMU_TYPE(S64, "s64", 8)                                         \
  EMU_TYPE(F16, "f16", 2) EMU_TYPE(F16X2, "f16x2", 4) EMU_TYPE(BF16, "bf16", 2) EMU_TYPE(BF16X2, "bf16x2", 4)                           \
  EMU_TYPE(TF32, "tf32", 4) EMU_TYPE(F32, "f32", 4) EMU_TYPE(F64, "f64", 8)                                                             \
  EMU_TYPE(E4M3X2, "e4m3x2", 2) EMU_TYPE(E5M2X2, "e5m2x2", 2) EMU_TYPE(PRED, "pred", 0)

typedef enum emu_type {
#define EMU_TYPE(id, text, bytes) EMU_##id,
  EMU_TYPES(EMU_TYPE)
#undef EMU_TYPE
  EMU_TYPE_COUNT
} emu_type;

typedef struct emu_type_info { const char *text; uint8_t bytes; } emu_type_info;
extern const emu_type_info emu_types[EMU_TYPE_COUNT];

/* Modifiers that change what is computed, a bit each; EMU_FLAG(id, "text"). */
#define EMU_FLAGS(EMU_FLAG)                                                                                                             \
  EMU_FLAG(RN, "rn") EMU_FLAG(RZ, "rz") EMU_FLAG(RM, "rm") EMU_FLAG(RP, "rp") EMU_FLAG(RNA, "rna")                                      \
  EMU_FLAG(RNI, "rni") EMU_FLAG(RZI, "rzi") EMU_FLAG(RMI, "rmi") EMU_FLAG(RPI, "rpi")                                                   \
  EMU_FLAG(FTZ, "ftz") EMU_FLAG(SAT, "sat") EMU_FLAG(SATFINITE, "satfinite") EMU_FLAG(APPROX, "approx") EMU_FLAG(FULL_RANGE, "full")    \
  EMU_FLAG(RELU, "relu") EMU_FLAG(NAN, "NaN") EMU_FLAG(XORSIGN, "xorsign") EMU_FLAG(ABS, "abs")                                         \
  EMU_FLAG(LO, "lo") EMU_FLAG(HI, "hi") EMU_FLAG(WIDE, "wide") EMU_FLAG(CC, "cc") EMU_FLAG(WRAP, "wrap") EMU_FLAG(CLAMP, "clamp")       \
  EMU_FLAG(L, "l") EMU_FLAG(R, "r") EMU_FLAG(SHIFTAMT, "shiftamt") EMU_FLAG(UNI, "uni") EMU_FLAG(TO, "to")

enum {
#define EMU_FLAG(id, text) EMU_BIT_##id,
  EMU_FLAGS(EMU_FLAG)
#undef EMU_FLAG
  EMU_BIT_COUNT
};
#define EMU_F(id) (1ull << EMU_BIT_##id)

typedef enum emu_space { EMU_GENERIC, EMU_GLOBAL, EMU_SHARED, EMU_LOCAL, EMU_CONST, EMU_PARAM, EMU_FRAME_PARAM } emu_space;

/* ---- decoded code ---- */

typedef struct emu_warp emu_warp;
typedef struct emu_ins emu_ins;
typedef struct emu_function emu_function;
typedef struct emu_module emu_module;
/* Runs the lanes of `mask`, never empty. */
typedef void (*emu_run)(emu_warp *w, const emu_ins *i, uint32_t mask);

typedef enum emu_kind { EMU_PLAIN, EMU_BRANCH, EMU_INDEXED, EMU_CALL, EMU_RETURN, EMU_EXIT, EMU_BARRIER, EMU_TRAP } emu_kind;

struct emu_ins {
  emu_run run;
  uint32_t d, s[4];          /* operands; a second result (shfl, setp) is in `list` */
  const uint32_t *list;      /* further ones: vectors, fragments */
  uint32_t predicate;        /* EMU_NOWHERE: none */
  uint32_t target, meet;     /* branches: where to, where the lanes meet again */
  int64_t offset;            /* of an address; a look-up table; a count */
  uint64_t flags;
  uint8_t kind, type, from;  /* emu_kind, emu_type, emu_type of the source */
  uint8_t space, n;          /* memory: emu_space, elements of a vector */
  uint8_t sub;               /* a comparison, a mode: the op's own */
  uint8_t width;             /* bytes of the destination register, where it may be wider than the type */
  bool negated, wide_address;/* the predicate; 64-bit address registers */
  uint32_t line, source_line;/* of the PTX, of the CUDA C (.loc) */
  const emu_function *callee;
  const uint32_t *targets;   /* brx.idx; `n` has their number in `offset` */
};

typedef struct emu_param { const char *name; uint32_t offset, bytes; } emu_param;
/* Special registers that a function reads, with the register that holds them. */
typedef struct emu_special { uint8_t which; uint32_t slot; } emu_special;
enum { EMU_TID_X, EMU_TID_Y, EMU_TID_Z, EMU_NTID_X, EMU_NTID_Y, EMU_NTID_Z, EMU_CTAID_X, EMU_CTAID_Y, EMU_CTAID_Z, EMU_NCTAID_X, EMU_NCTAID_Y, EMU_NCTAID_Z,
       EMU_LANEID, EMU_WARPID, EMU_NWARPID, EMU_LANEMASK_EQ, EMU_LANEMASK_LE, EMU_LANEMASK_LT, EMU_LANEMASK_GE, EMU_LANEMASK_GT, EMU_SMID, EMU_NSMID,
       EMU_DYNAMIC_SMEM, EMU_TOTAL_SMEM, EMU_CLOCK, EMU_CLOCK64, EMU_GLOBALTIMER, EMU_SPECIAL_COUNT };

/* What a kernel did, summed over its launches. Sectors are of 32 bytes; a wavefront is one pass over the 32 banks of shared memory. */
typedef struct emu_counters {
  uint64_t launches, blocks, warp_instructions, lane_instructions, divergent_branches, barriers;
  uint64_t global_loads, global_load_sectors, global_load_ideal, global_load_bytes;
  uint64_t global_stores, global_store_sectors, global_store_ideal, global_store_bytes;
  uint64_t shared_requests, shared_wavefronts, shared_ideal;
  uint64_t local_requests, atomics, products;
} emu_counters;

struct emu_function {
  const char *name;
  emu_module *module;
  bool is_entry, defined;
  emu_ins *code;             /* n of them, and an EMU_RETURN behind */
  uint32_t n;
  uint32_t register_bytes, constant_bytes;
  uint8_t *constants;
  emu_param *params, *results;
  uint32_t n_params, n_results, param_bytes;
  emu_special *specials;
  uint32_t n_specials;
  uint32_t frame_bytes;      /* local variables, and the parameters of calls */
  uint32_t stack_bytes, stack_registers; /* frames and registers, with the deepest calls */
  uint32_t shared_bytes;     /* static */
  uint32_t max_threads, required_threads;
  uint32_t shared_grain;     /* the narrowest access to shared memory: 1, 2 or 4 bytes */
  int max_dynamic_shared;    /* cuFuncSetAttribute */
  emu_counters counters;
};

struct emu_module {
  sn_arena *arena;
  int version, target;       /* 90: .version 9.0; 80: .target sm_80 */
  bool arch_specific;        /* sm_90a */
  emu_function **functions;
  uint32_t n_functions;
  const char *text;          /* the PTX, kept for messages */
  uint64_t *globals;         /* device addresses to free with the module */
  uint32_t n_globals;
};

/* Reads PTX (NUL-terminated). false: `error` says why, with the line. Variables of .global and .const get device memory. */
bool emu_module_read(const char *text, emu_module **out, char *error, size_t error_bytes);
void emu_module_destroy(emu_module *m);
emu_function *emu_module_find(const emu_module *m, const char *name);

/* ptx_flow.c: fills `meet` of every branch: the immediate post-dominator. */
bool emu_flow(sn_arena *a, emu_function *f);

/* ---- instruction tables (exec_*.c), read by the decoder ---- */

/* Operands of a row: t the type, w twice as wide, u a u32, h a u16, p a predicate, i an immediate kept in `offset`. The first is the result. */
typedef struct emu_row {
  const char *name;
  const char *operands;
  uint64_t need, allow;      /* modifiers that must, that may be there */
  emu_run by_type[EMU_TYPE_COUNT];
  emu_run careful[EMU_TYPE_COUNT]; /* where a flag of `slow` is there: rounding modes, ftz, saturation */
  uint64_t slow;
} emu_row;
extern const emu_row emu_rows_integer[], emu_rows_float[], emu_rows_half[], emu_rows_bits[]; /* end with a NULL name */

emu_run emu_setp_run(emu_type t, int comparison);
enum { EMU_EQ, EMU_NE, EMU_LT, EMU_LE, EMU_GT, EMU_GE, EMU_EQU, EMU_NEU, EMU_LTU, EMU_LEU, EMU_GTU, EMU_GEU, EMU_NUM, EMU_ISNAN, EMU_COMPARISON_COUNT };
enum { EMU_BOOL_NONE, EMU_BOOL_AND, EMU_BOOL_OR, EMU_BOOL_XOR };
emu_run emu_convert_run(emu_type to, emu_type from, int width, int from_width, uint64_t flags);
/* exec_memory.c, exec_async.c, exec_lanes.c, exec_product.c */
void emu_load(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_store(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_atomic(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_address(emu_warp *w, const emu_ins *i, uint32_t mask); /* cvta */
void emu_local_address(emu_warp *w, const emu_ins *i, uint32_t mask); /* of a variable of the frame */
void emu_copy_async(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_copy_commit(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_copy_wait(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_load_matrix(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_shuffle(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_vote(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_match(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_redux(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_activemask(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_elect(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_warp_sync(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_nothing(emu_warp *w, const emu_ins *i, uint32_t mask);
void emu_pack(emu_warp *w, const emu_ins *i, uint32_t mask);   /* mov.b64 %rd, {%r1, %r2} */
void emu_unpack(emu_warp *w, const emu_ins *i, uint32_t mask);
enum { EMU_ATOM_ADD, EMU_ATOM_MIN, EMU_ATOM_MAX, EMU_ATOM_AND, EMU_ATOM_OR, EMU_ATOM_XOR, EMU_ATOM_EXCH, EMU_ATOM_CAS, EMU_ATOM_INC, EMU_ATOM_DEC, EMU_ATOM_COUNT };
/* A shape of mma.sync by its modifiers; NULL: not known. Sizes: registers of d, a, b, c. */
emu_run emu_product_run(const char *shape, const emu_type types[4], int sizes[4]);

/* ---- running ---- */

typedef struct emu_fault { int code; char text[512]; } emu_fault;

/* exec.c: one launch, to its end. false: *fault says what went wrong. */
typedef struct emu_launch {
  const emu_function *function;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;     /* dynamic */
  const uint8_t *params;
  int threads;               /* of the host */
  uint64_t limit;            /* warp instructions of a block before it counts as hung; 0: none */
} emu_launch;
bool emu_execute(const emu_launch *l, emu_counters *c, emu_fault *fault);

/* ---- device memory (driver_memory.c) ---- */

bool emu_memory_open(uint64_t bytes, bool shadow);
void emu_memory_close(void);
uint64_t emu_memory_alloc(uint64_t bytes); /* 0: no room */
bool emu_memory_free(uint64_t at);
void emu_memory_info(uint64_t *free_bytes, uint64_t *total);
/* Host address of [at, at + bytes) if it lies in one allocation, else NULL. */
uint8_t *emu_memory_at(uint64_t at, uint64_t bytes);
/* One byte a byte of device memory, 0: never written; NULL: not kept. For the same address. */
uint8_t *emu_memory_shadow(const uint8_t *host);
void emu_memory_explain(uint64_t at, char *to, size_t bytes); /* "256 bytes past the allocation of 1024 bytes at 0x…" */

/* Environment: what is checked, and what goes wrong on purpose (README.md). Read once. */
typedef struct emu_settings {
  bool check_races, check_uninitialised;
  uint64_t order; /* of a launch's blocks: each seed another one; 0: as they are numbered */
  int threads, compute;      /* 80: sm_80 */
  uint64_t memory_bytes, hang_instructions;
  int driver_version;
  const char *report;        /* a file to append to */
  const char *fault;         /* KIND[:N] */
} emu_settings;
const emu_settings *emu_settings_get(void);

#endif
