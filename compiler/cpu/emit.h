/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the emitter share: the state of one function being written, and a small layer over LLVM's builder.
 *
 * A value is an LLVMValueRef whose LLVM type says whether it is one for all lanes (a scalar) or one a lane (a vector). Inside a vector loop both occur: what does not
 * depend on the lane stays scalar until it meets a vector. The builders below widen as needed.
 *
 * Element types in registers: pred is i1; integers have their own width (sub-byte ones i8, kept wrapped); f32 and f64 are themselves; all narrower floats are held as an
 * f32 that the narrow type holds exactly; complex types are two values. */
#ifndef SINTER_CPU_EMIT_H
#define SINTER_CPU_EMIT_H

#include "sinter/cpu.h"

#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/TargetMachine.h>

/* Slots of the imports table. */
enum {
#define SN_IMPORT(id, name, meaning) SN_IMPORT_##id,
#include "sinter/imports.def"
#undef SN_IMPORT
  SN_IMPORT_COUNT
};

typedef LLVMValueRef val;
typedef struct elem { val v[2]; } elem; /* v[1]: the imaginary part, else NULL */

#define EMIT_MAX_LANES 64

/* An open construct. Index expressions are emitted in the outermost scope in which their variables exist, behind what was emitted there and in front of the construct
 * through which the emission went on. */
typedef struct scope {
  LLVMValueRef leave;    /* the branch into the construct that is open inside; NULL: the innermost scope */
  uint32_t serial;       /* unique in the function: memoised values of a closed scope die with it */
} scope;

typedef struct index_memo { val v; int depth; uint32_t serial; } index_memo;

typedef struct index_var {
  val base;              /* scalar, or one a lane where `varies` and no step */
  int64_t lane_step;     /* value of lane l: base + l * lane_step */
  bool varies;           /* differs from lane to lane */
  int depth;             /* scope in which it exists */
  bool bound;
} index_var;

#define EMIT_MAX_DEPTH 256

typedef struct emit {
  sn_arena *arena;
  const sn_target *target;
  const sn_kernel *k;
  LLVMContextRef cx;
  LLVMModuleRef module;
  LLVMBuilderRef b;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr, none;
  bool fma, f16c, avx512, avx2;
  /* the function */
  LLVMValueRef fn, env, imports, dummy;
  LLVMBasicBlockRef entry;
  val *buffers;
  elem *values;          /* by kernel value id */
  index_var *dims, *syms;
  scope scopes[EMIT_MAX_DEPTH];
  int depth;             /* scopes[depth] is the innermost */
  uint32_t n_serials;
  index_memo *memo;      /* by id of index expression */
  uint32_t n_memo;
  int lanes;             /* of the open vector loop; 1: none */
  val mask;              /* active lanes (vector of i1), or NULL: all */
  sn_status status;
  const char *error;     /* in the arena */
  uint64_t called;       /* rows of imports.def, a bit each */
  /* line tables (lines.c); lines NULL: none */
  const sn_cpu_lines *lines;
  int kernel;            /* number of the function's */
  LLVMDIBuilderRef di;
  LLVMMetadataRef di_file, di_type, di_scope; /* di_scope NULL: a function without lines */
} emit;

/* ---- failures: the first sticks ---- */
void emit_fail(emit *e, sn_status status, const char *fmt, ...) SN_PRINTF(3, 4);
void emit_no_memory(emit *e);

/* ---- build.c ---- */
int lanes_of(val v);
LLVMTypeRef elem_of(val v);                       /* element type of a vector, or the type */
LLVMTypeRef wide(emit *e, LLVMTypeRef t, int lanes); /* t, or <lanes x t> */
LLVMTypeRef like(emit *e, LLVMTypeRef t, val v);  /* t with v's lanes */
val splat(emit *e, val v, int lanes);
void match(emit *e, val *a, val *b);              /* gives both the lanes of the wider */
int bits_of(val v);                               /* width of an integer or float element */
val const_int(emit *e, val as, int64_t v);        /* of `as`'s integer type and lanes */
val const_float(emit *e, val as, double v);
val const_bits(emit *e, val as, uint64_t bits);   /* float constant of as's type by its bits */
val lane_numbers(emit *e, LLVMTypeRef t, int lanes, int64_t step); /* 0, step, 2 step, … */
val bin(emit *e, LLVMOpcode op, val a, val b);
val cast(emit *e, LLVMOpcode op, val a, LLVMTypeRef to);
val icmp(emit *e, LLVMIntPredicate p, val a, val b);
val fcmp(emit *e, LLVMRealPredicate p, val a, val b);
val choose(emit *e, val c, val t, val f);         /* select */
val intrinsic(emit *e, const char *name, int n, val *args, int n_types, LLVMTypeRef *types);
val call1(emit *e, const char *intrinsic_name, val a);   /* overloaded on a's type */
val call2(emit *e, const char *intrinsic_name, val a, val b);
val fma_op(emit *e, val a, val b, val c);         /* rounded once where the target can, else twice: for polynomials */
val any_lane(emit *e, val mask);                  /* i1 */
val lane(emit *e, val v, int l);                  /* element of a vector; a scalar itself */
val from_lanes(emit *e, int n, val *parts);       /* scalars to a vector */
val shuffle(emit *e, val a, val b, int n, const int *which);
val reverse_lanes(emit *e, val v);
val and_masks(emit *e, val a, val b);             /* NULL: all */
LLVMBasicBlockRef new_block(emit *e, const char *name);
LLVMBasicBlockRef here(const emit *e);
void jump(emit *e, LLVMBasicBlockRef to);
LLVMValueRef branch(emit *e, val c, LLVMBasicBlockRef t, LLVMBasicBlockRef f);
void at_end(emit *e, LLVMBasicBlockRef b);
val phi(emit *e, LLVMTypeRef t);
void phi_add(val phi, val v, LLVMBasicBlockRef from);
void no_unroll(emit *e, LLVMValueRef back_edge);
typedef struct counted { LLVMBasicBlockRef head, done; val i; } counted; /* a loop that carries nothing but its number */
counted count_from(emit *e, val from, val to);
void count_end(emit *e, const counted *c, int64_t step);
val stack_slot(emit *e, LLVMTypeRef t, int64_t n, unsigned align); /* in the entry block */

static inline val add(emit *e, val a, val b) { return bin(e, LLVMAdd, a, b); }
static inline val sub(emit *e, val a, val b) { return bin(e, LLVMSub, a, b); }
static inline val mul(emit *e, val a, val b) { return bin(e, LLVMMul, a, b); }
static inline val add_f(emit *e, val a, val b) { return bin(e, LLVMFAdd, a, b); }
static inline val sub_f(emit *e, val a, val b) { return bin(e, LLVMFSub, a, b); }
static inline val mul_f(emit *e, val a, val b) { return bin(e, LLVMFMul, a, b); }
static inline val div_f(emit *e, val a, val b) { return bin(e, LLVMFDiv, a, b); }
static inline val and_(emit *e, val a, val b) { return bin(e, LLVMAnd, a, b); }
static inline val or_(emit *e, val a, val b) { return bin(e, LLVMOr, a, b); }
static inline val xor_(emit *e, val a, val b) { return bin(e, LLVMXor, a, b); }
static inline val shl(emit *e, val a, val b) { return bin(e, LLVMShl, a, b); }
static inline val lshr(emit *e, val a, val b) { return bin(e, LLVMLShr, a, b); }
static inline val ashr(emit *e, val a, val b) { return bin(e, LLVMAShr, a, b); }

/* ---- index.c ---- */
val emit_index(emit *e, const sn_ix *x);          /* scalar i64, or a vector of i32 or i64 where it varies over the lanes */
bool index_varies(const emit *e, const sn_ix *x);
int index_depth(const emit *e, const sn_ix *x);
val emit_guards(emit *e, int n, const sn_ix_guard *guards); /* i1, vector of i1, or NULL: always */
void scope_open(emit *e, LLVMValueRef leave);     /* `leave`: the branch by which the open scope is left for now */
void scope_close(emit *e);

/* Where an access goes: ptr for lane 0, or one pointer a lane. */
typedef struct place {
  val pointer;           /* scalar: of lane 0; vector of pointers where `scattered` */
  int64_t lane_step;     /* elements from lane to lane; 0: one address for all */
  bool scattered;
} place;
place emit_place(emit *e, int buffer, const sn_ix *const *at);
val emit_offset(emit *e, LLVMTypeRef t, val pointer, int buffer, const sn_ix *const *at); /* scalar address: no lane may vary */

/* ---- memory.c ---- */
LLVMTypeRef memory_type(emit *e, sn_type t);      /* of one element (of a part, for complex types) */
LLVMTypeRef register_type(emit *e, sn_type t);
val from_memory(emit *e, sn_type t, val raw);     /* loaded bits to the register form */
val to_memory(emit *e, sn_type t, val v);
elem emit_load(emit *e, const sn_knode *n);
void emit_store(emit *e, const sn_knode *n);
void emit_atomic(emit *e, const sn_knode *n);

struct phase_part;
/* ---- lines.c ---- */
void lines_begin(emit *e);
void lines_end(emit *e);                                  /* before the module is verified */
void lines_function(emit *e, const struct phase_part *p);       /* what is emitted from here on belongs to it */
void lines_at(emit *e, const char *name);                 /* … and to this instruction */

/* ---- node.c ---- */
void emit_region(emit *e, const sn_kregion *r);
elem value_of(emit *e, const sn_kvalue *v);
/* ---- loop.c ---- */
void emit_for(emit *e, const sn_knode *n);
void emit_if(emit *e, const sn_knode *n);
void emit_while(emit *e, const sn_knode *n);
void emit_yielded(emit *e, const sn_kregion *r, elem *out);
/* ---- contract.c ---- */
void emit_contract(emit *e, const sn_knode *n);
void emit_copy(emit *e, const sn_knode *n);
/* Micro-kernels are functions of their own, shared by the kernels of a program: a key names one. */
typedef struct contract_key {
  sn_type type;
  int mr, nr;
  bool pairs; /* words of two terms in bf16 */
  bool accumulate, a_rows_adjacent /* a.stride[0] == 1; else its terms are: a.stride[1] == 1 */, full_m, full_n;
  int64_t a_term_stride; /* where a's rows are adjacent: elements from term to term, a constant */
  int64_t acc_stride, b_stride; /* row strides of acc and b */
} contract_key;
/* false: none; written as plain loops in place */
bool contract_key_of(const sn_target *t, const sn_kernel *k, const sn_kcontract *c, contract_key *out);
void contract_symbol(const contract_key *key, char *out, size_t bytes);
void contract_function(emit *e, const contract_key *key);       /* defines it in e's module */

/* ---- elementwise.c and the files it calls ---- */
elem emit_elementwise(emit *e, const sn_knode *n);
elem emit_combine(emit *e, sn_opcode op, sn_type t, elem a, elem b);
elem emit_identity(emit *e, sn_opcode op, sn_type t);
elem emit_const(emit *e, sn_type t, const uint64_t bits[2]);
val emit_fma(emit *e, sn_type t, val a, val b, val c);
val wrap_int(emit *e, sn_type t, val v);          /* sub-byte integers back to their width */
elem emit_stochastic_convert(emit *e, sn_type to, sn_type from, elem v, sn_type noise, elem random);
elem convert_elem(emit *e, sn_type to, sn_type from, elem v);
val round_narrow(emit *e, sn_type t, val v);      /* f32 to the nearest value of a narrower float, as f32 */
val encode_narrow(emit *e, sn_type t, val v);     /* such an f32 to the format's bits, in memory_type */
val decode_narrow(emit *e, sn_type t, val raw);
val round_odd(emit *e, val f64);                  /* f64 to f32, rounded to odd */
val emit_int_unary(emit *e, sn_opcode op, sn_type t, val a);
val emit_int_binary(emit *e, sn_opcode op, sn_type t, val a, val b);
val emit_float_unary(emit *e, sn_opcode op, val a);            /* f32 or f64 */
val emit_float_binary(emit *e, sn_opcode op, val a, val b);
val emit_float_compare(emit *e, int direction, bool total, val a, val b);
elem emit_complex_unary(emit *e, sn_opcode op, sn_type t, elem a);
elem emit_complex_binary(emit *e, sn_opcode op, sn_type t, elem a, elem b);
val emit_reduce_precision(emit *e, val v, int exponent_bits, int mantissa_bits);

/* Calls row `import` of imports.def for every lane. */
val call_import(emit *e, int import, LLVMTypeRef result, int n, val *args);

/* ---- the functions of math_*.c: a is f32 or f64, any lanes ---- */
val math_exp(emit *e, val a);
val math_expm1(emit *e, val a);
val math_log(emit *e, val a);
val math_log1p(emit *e, val a);
val math_tanh(emit *e, val a);
val math_logistic(emit *e, val a);
val math_erf(emit *e, val a);
val math_sin(emit *e, val a);
val math_cos(emit *e, val a);
val math_tan(emit *e, val a);
val math_asin(emit *e, val a);
val math_acos(emit *e, val a);
val math_atan(emit *e, val a);
val math_atan2(emit *e, val y, val x);
val math_sinh(emit *e, val a);
val math_cosh(emit *e, val a);
val math_asinh(emit *e, val a);
val math_acosh(emit *e, val a);
val math_atanh(emit *e, val a);
val math_cbrt(emit *e, val a);
val math_pow(emit *e, val x, val y);
val math_rsqrt(emit *e, val a);

/* ---- compile.c ---- */
SN_NODISCARD sn_status cpu_machine(sn_diag *d, const sn_target *t, int level, LLVMTargetMachineRef *out); /* the caller's */
/* ---- function.c ---- */
void emit_begin(emit *e, LLVMContextRef cx, const char *module_name);
void emit_end(emit *e);
/* A phase of kernel number `kernel`, or, where another phase does the same, the way there. */
typedef struct phase_part {
  const sn_kernel *k;
  int kernel, phase;
  sn_kphase_key key;
  int same;              /* the first part that does the same; its own number when none does */
} phase_part;
void emit_part(emit *e, const phase_part *p);
void emit_door(emit *e, const phase_part *p, const phase_part *to); /* calls `to` with p's buffers in its order */
bool part_needs_door(const phase_part *p, const phase_part *to);
void phase_symbol(int kernel, int phase, char *out, size_t bytes);
void function_attributes(emit *e, LLVMValueRef fn);
void emit_support(emit *e); /* memcpy, memmove, memset: what LLVM may call unasked, as code of the blob's own */

#endif
