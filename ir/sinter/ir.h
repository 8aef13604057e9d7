/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The HLO module: ops, attributes, instructions, computations; creation, edits, verification, copies, equality.
 *
 * One arena per module owns everything; instructions never move and are never freed alone. Struct bodies are visible because every pass, rule and
 * emitter reads their fields in every line: READ any field, but WRITE only through the functions below (they keep names, uses, ids and lists right).
 * Everything here is single-threaded per module; two modules may be worked on by two threads. */
#ifndef SINTER_IR_H
#define SINTER_IR_H

#include "sinter/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ops ------------------------------------------------------------------------------------------------------ */

#define SN_VARIADIC (-1)

typedef enum sn_opcode {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) SN_OP_##id,
#include "sinter/ops.def"
#undef SN_OP
  SN_OP_COUNT
} sn_opcode;

typedef enum sn_trait {
  SN_T_PURE = 1 << 0,       /* no effect but its result: may be dropped, merged, moved (an op with called computations: only as pure as those) */
  SN_T_ELTWISE = 1 << 1,    /* element i of the result needs element i of each operand only */
  SN_T_COMMUTES = 1 << 2,   /* the two operands may be swapped */
  SN_T_EFFECT = 1 << 3,     /* touches the world: keeps its place and is never dropped */
  SN_T_CALLS = 1 << 4,      /* runs its called computations as control flow or code of their own */
  SN_T_COLLECTIVE = 1 << 5, /* meets other devices */
  SN_T_TOKEN = 1 << 6,      /* takes or gives tokens */
  SN_T_DEVICE = 1 << 7,     /* differs from device to device */
  SN_T_START = 1 << 8,      /* begins an asynchronous pair */
  SN_T_DONE = 1 << 9,       /* ends one */
  SN_T_BARRIER = 1 << 10,   /* nothing may move across */
  SN_T_FREE = 1 << 11,      /* cost class: no work at run time */
  SN_T_TRANS = 1 << 12,     /* cost class: a transcendental an element */
  SN_T_SPECIAL = 1 << 13    /* cost class: a formula of its own in passes/cost; without any of the three: one operation an element */
} sn_trait;

/* ---- attributes ------------------------------------------------------------------------------------------------- */

typedef enum sn_attr_kind {
  SN_KIND_BOOL,        /* i: 0 or 1 */
  SN_KIND_INT,         /* i */
  SN_KIND_F64,         /* f */
  SN_KIND_ENUM,        /* i: position in its domain */
  SN_KIND_INTS,        /* ints */
  SN_KIND_ENUMS,       /* ints: positions in the domain */
  SN_KIND_SLICES,      /* ints: start, limit, stride a dimension */
  SN_KIND_PADDING,     /* ints: low, high, interior a dimension */
  SN_KIND_PAIRS,       /* ints: source, target a pair */
  SN_KIND_NESTED_INTS, /* nested */
  SN_KIND_WINDOW,      /* window */
  SN_KIND_CONV_DIMS,   /* conv */
  SN_KIND_GROUPS,      /* groups */
  SN_KIND_ALIASES,     /* aliases */
  SN_KIND_STRING,      /* str: unescaped content; printed quoted */
  SN_KIND_RAW,         /* str: printed as it is */
  SN_KIND_SHAPE,       /* shape */
  SN_KIND_SHAPES,      /* shapes */
  SN_KIND_LITERAL,     /* literal */
  SN_KIND_COMP,        /* in sn_instr.called */
  SN_KIND_COMPS        /* in sn_instr.called: all that are left */
} sn_attr_kind;

typedef enum sn_attr_id {
#define SN_ATTR(id, text, kind, domain, dflt) SN_ATTR_##id,
#include "sinter/attrs.def"
#undef SN_ATTR
  SN_ATTR_COUNT
} sn_attr_id;

#define SN_REQUIRED INT64_MIN
#define SN_OPTIONAL (INT64_MIN + 1)

/* Entries of an op row's attribute list. */
#define SN_ATTR_MUST 0x8000
#define SN_ATTR_END 0xffff
#define SN_R(id) (SN_ATTR_##id | SN_ATTR_MUST)
#define SN_O(id) SN_ATTR_##id
#define SN_NO_ATTRS SN_ATTR_END

/* Enumerated words: constants SN_DIRECTION_EQ, … (positions within their domain: enums.c checks the order). */
typedef enum sn_enum_domain {
  SN_DOMAIN_NONE, SN_DOMAIN_DIRECTION, SN_DOMAIN_COMPARE_TYPE, SN_DOMAIN_PRECISION, SN_DOMAIN_DOT_ALGORITHM, SN_DOMAIN_CONV_KIND, SN_DOMAIN_TRISTATE,
  SN_DOMAIN_FFT_TYPE, SN_DOMAIN_TRANSPOSE, SN_DOMAIN_DISTRIBUTION, SN_DOMAIN_RNG_ALGORITHM, SN_DOMAIN_FUSION_KIND, SN_DOMAIN_PADDING_TYPE,
  SN_DOMAIN_CUSTOM_CALL_SCHEDULE, SN_DOMAIN_API_VERSION, SN_DOMAIN_COUNT
} sn_enum_domain;

enum { SN_DIRECTION_EQ, SN_DIRECTION_NE, SN_DIRECTION_GE, SN_DIRECTION_GT, SN_DIRECTION_LE, SN_DIRECTION_LT };
enum { SN_COMPARE_TYPE_FLOAT, SN_COMPARE_TYPE_TOTALORDER, SN_COMPARE_TYPE_SIGNED, SN_COMPARE_TYPE_UNSIGNED };
enum { SN_PRECISION_DEFAULT, SN_PRECISION_HIGH, SN_PRECISION_HIGHEST, SN_PRECISION_PACKED_NIBBLE };
enum {
  SN_DOT_ALGORITHM_UNSET, SN_DOT_ALGORITHM_ANY_F8_ANY_F8_F32, SN_DOT_ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM, SN_DOT_ALGORITHM_ANY_F8_ANY_F8_ANY,
  SN_DOT_ALGORITHM_ANY_F8_ANY_F8_ANY_FAST_ACCUM, SN_DOT_ALGORITHM_F16_F16_F16, SN_DOT_ALGORITHM_F16_F16_F32, SN_DOT_ALGORITHM_BF16_BF16_BF16,
  SN_DOT_ALGORITHM_BF16_BF16_F32, SN_DOT_ALGORITHM_BF16_BF16_F32_X3, SN_DOT_ALGORITHM_BF16_BF16_F32_X6, SN_DOT_ALGORITHM_BF16_BF16_F32_X9,
  SN_DOT_ALGORITHM_TF32_TF32_F32, SN_DOT_ALGORITHM_TF32_TF32_F32_X3, SN_DOT_ALGORITHM_F32_F32_F32, SN_DOT_ALGORITHM_F64_F64_F64
};
enum { SN_CONV_KIND_FPROP, SN_CONV_KIND_DGRAD, SN_CONV_KIND_WGRAD };
enum { SN_TRISTATE_UNKNOWN, SN_TRISTATE_FALSE, SN_TRISTATE_TRUE };
enum { SN_FFT_TYPE_FFT, SN_FFT_TYPE_IFFT, SN_FFT_TYPE_RFFT, SN_FFT_TYPE_IRFFT };
enum { SN_TRANSPOSE_NO_TRANSPOSE, SN_TRANSPOSE_TRANSPOSE, SN_TRANSPOSE_ADJOINT };
enum { SN_DISTRIBUTION_UNIFORM, SN_DISTRIBUTION_NORMAL };
enum { SN_RNG_ALGORITHM_DEFAULT, SN_RNG_ALGORITHM_THREE_FRY, SN_RNG_ALGORITHM_PHILOX };
enum { SN_FUSION_KIND_LOOP, SN_FUSION_KIND_INPUT, SN_FUSION_KIND_OUTPUT, SN_FUSION_KIND_CUSTOM };
enum { SN_PADDING_TYPE_INVALID, SN_PADDING_TYPE_VALID, SN_PADDING_TYPE_SAME };
enum { SN_CUSTOM_CALL_SCHEDULE_NONE, SN_CUSTOM_CALL_SCHEDULE_LATEST, SN_CUSTOM_CALL_SCHEDULE_EARLIEST };
enum { SN_API_VERSION_UNSPECIFIED, SN_API_VERSION_ORIGINAL, SN_API_VERSION_STATUS_RETURNING, SN_API_VERSION_STATUS_RETURNING_UNIFIED, SN_API_VERSION_TYPED_FFI };

typedef struct sn_attr_info {
  const char *text;
  sn_attr_kind kind;
  sn_enum_domain domain;
  int64_t dflt; /* SN_REQUIRED, SN_OPTIONAL or the default value */
} sn_attr_info;
extern const sn_attr_info sn_attrs[SN_ATTR_COUNT];

const char *sn_enum_text(sn_enum_domain d, int64_t value);                     /* NULL when out of range */
bool sn_enum_from_text(sn_enum_domain d, const char *text, size_t n, int64_t *out);
int sn_enum_count(sn_enum_domain d);

typedef struct sn_ints {
  int64_t n;
  const int64_t *v;
} sn_ints;

typedef struct sn_window_dim {
  int64_t size, stride, pad_low, pad_high, lhs_dilate, rhs_dilate; /* lhs_dilate: base dilation, rhs_dilate: window dilation */
  bool reversal;
} sn_window_dim;
typedef struct sn_window {
  int rank;
  const sn_window_dim *dims;
} sn_window;

/* dim_labels: where batch, feature and spatial dimensions stand in input, kernel and output. */
typedef struct sn_conv_dims {
  int n_spatial;
  int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch, output_feature;
  const int64_t *input_spatial, *kernel_spatial, *output_spatial; /* n_spatial each */
  int input_rank, kernel_rank, output_rank; /* dims counted with `?` ones */
} sn_conv_dims;

/* Groups of replica or partition ids, in whatever form they were written. */
typedef enum sn_groups_form { SN_GROUPS_LIST, SN_GROUPS_IOTA, SN_GROUPS_MESH } sn_groups_form;
typedef struct sn_groups {
  sn_groups_form form;
  int64_t n_groups;        /* 0: `{}`, all devices in one group */
  const sn_ints *groups;   /* expanded ids of each group, in every form */
  sn_ints iota_dims, reshape_dims, transpose; /* IOTA: [iota_dims]<=[reshape_dims]T(transpose); transpose empty: none */
  const char *mesh;        /* MESH: the text */
} sn_groups;

/* One alias: element `output_index` of the result shares the buffer of element `operand_index` of operand `operand`. */
typedef struct sn_alias {
  sn_ints output_index;
  int64_t operand;
  sn_ints operand_index;
  bool must; /* input_output_alias only: must-alias */
} sn_alias;

typedef struct sn_attr {
  sn_attr_id id;
  union {
    int64_t i;
    double f;
    sn_ints ints;
    struct { int64_t n; const sn_ints *v; } nested;
    const sn_window *window;
    const sn_conv_dims *conv;
    const sn_groups *groups;
    struct { int64_t n; const sn_alias *v; } aliases;
    struct { size_t n; const char *s; } str; /* NUL-terminated as well */
    const sn_shape *shape;
    struct { int64_t n; const sn_shape *const *v; } shapes;
    sn_array *literal; /* retained by the module; NULL: an elided constant `{...}` */
  } u;
} sn_attr;

/* Makers for specs on the caller's stack; what they point to is copied when the instruction is made. */
static inline sn_attr sn_attr_int(sn_attr_id id, int64_t i) { sn_attr a; a.id = id; a.u.i = i; return a; }
static inline sn_attr sn_attr_f64(sn_attr_id id, double f) { sn_attr a; a.id = id; a.u.f = f; return a; }
static inline sn_attr sn_attr_ints(sn_attr_id id, int64_t n, const int64_t *v) { sn_attr a; a.id = id; a.u.ints.n = n; a.u.ints.v = v; return a; }
static inline sn_attr sn_attr_window(const sn_window *w) { sn_attr a; a.id = SN_ATTR_WINDOW; a.u.window = w; return a; }
static inline sn_attr sn_attr_conv(const sn_conv_dims *c) { sn_attr a; a.id = SN_ATTR_DIM_LABELS; a.u.conv = c; return a; }
static inline sn_attr sn_attr_literal(sn_array *l) { sn_attr a; a.id = SN_ATTR_LITERAL; a.u.literal = l; return a; }
sn_attr sn_attr_string(sn_attr_id id, const char *s);

typedef struct sn_op_info {
  const char *text;
  int16_t arity_min, arity_max; /* SN_VARIADIC: no upper bound */
  uint32_t traits;
  const uint16_t *attrs; /* ends with SN_ATTR_END; mask SN_ATTR_MUST off for the id */
  const char *shape_rule, *index_rule, *diff_rule, *batch_rule; /* for pages and messages */
} sn_op_info;
extern const sn_op_info sn_ops[SN_OP_COUNT];
bool sn_opcode_from_text(const char *text, size_t n, sn_opcode *out);
static inline const char *sn_opcode_text(sn_opcode op) { return (unsigned)op < SN_OP_COUNT ? sn_ops[op].text : "invalid"; }
static inline bool sn_op_has(sn_opcode op, sn_trait t) { return (sn_ops[op].traits & (uint32_t)t) != 0; }
/* Does the op's row list this attribute? *must: required. */
bool sn_op_takes(sn_opcode op, sn_attr_id id, bool *must);

/* ---- what any instruction may carry -------------------------------------------------------------------------------- */

typedef struct sn_pair { /* frontend_attributes: key=value; raw values are printed without quotes ({…}) */
  const char *key, *value;
  bool raw;
} sn_pair;

typedef struct sn_metadata {
  const char *op_type, *op_name, *source_file; /* or NULL */
  int32_t source_line, source_end_line, source_column, source_end_column, stack_frame_id; /* 0: absent */
  const char *deduplicated_name, *scheduling_name; /* or NULL */
  sn_ints profile_type;
} sn_metadata;

typedef enum sn_sharding_kind {
  SN_SHARDING_REPLICATED, SN_SHARDING_MAXIMAL, SN_SHARDING_MANUAL, SN_SHARDING_UNKNOWN, SN_SHARDING_UNREDUCED,
  SN_SHARDING_TILED, SN_SHARDING_TUPLE, SN_SHARDING_NAMED
} sn_sharding_kind;
typedef struct sn_sharding {
  sn_sharding_kind kind;
  int64_t device;                 /* MAXIMAL */
  sn_ints tile_dims;              /* TILED: devices=[…] with all trailing dims */
  bool iota;                      /* TILED: written as <=[reshape]T(transpose); else listed */
  sn_ints devices;                /* TILED: always expanded, in tile order */
  sn_ints reshape_dims, transpose;
  bool last_tile_replicated;      /* last_tile_dim_replicate */
  sn_ints last_tile_kinds;        /* last_tile_dims={…}: sn_sharding_kind values */
  int64_t group;                  /* shard_as / shard_like n; -1: none */
  bool group_is_like;
  int64_t n_elements;             /* TUPLE */
  const struct sn_sharding *const *elements;
  const char *named;              /* NAMED: the text between the braces */
  const char *metadata;           /* metadata={…} text, or NULL */
} sn_sharding;

/* ---- instructions ---------------------------------------------------------------------------------------------------- */

typedef struct sn_module sn_module;
typedef struct sn_computation sn_computation;
typedef struct sn_instr sn_instr;

/* An operand slot: it is also the link in the used instruction's list of uses (in order of creation). */
typedef struct sn_use {
  sn_instr *def;
  sn_instr *user;
  uint32_t index; /* operand number in user */
  struct sn_use *prev, *next;
} sn_use;

struct sn_instr {
  sn_opcode op;
  uint32_t id;           /* dense in the module, never reused; index of analysis arrays (module->n_ids of them) */
  const char *name;      /* unique in its computation */
  const sn_shape *shape; /* of the result; arrays carry a layout only when one was given */
  sn_computation *parent;
  sn_instr *prev, *next; /* order in the computation; operands come before users (the order is the schedule when module->is_scheduled) */
  uint32_t n_operands, n_uses;
  sn_use *operands;
  sn_use *first_use, *last_use;
  uint16_t n_attrs, n_called, n_control;
  const sn_attr *attrs;         /* in the order of the op's row */
  sn_computation **called;      /* in the order of the op's row: while: condition, body; select-and-scatter: select, scatter */
  sn_instr **control;           /* control predecessors */
  const sn_sharding *sharding;  /* or NULL */
  const sn_metadata *metadata;  /* or NULL */
  uint16_t n_frontend;
  const sn_pair *frontend;      /* frontend_attributes */
  const char *backend_config;   /* text; NULL: none */
  bool backend_config_quoted;   /* printed as a quoted string, else raw */
  const sn_pair *extras;        /* statistics, parameter_replication, origin, as raw text; ends with key NULL; or NULL */
  sn_loc loc;                   /* where it stands in the text it was read from, or in the caller's C source */
};

struct sn_computation {
  const char *name; /* unique in the module */
  uint32_t id;      /* dense in the module */
  sn_module *module;
  sn_computation *prev, *next; /* callees before callers */
  sn_instr *first, *last, *root;
  uint32_t n_instrs;
  uint32_t n_params, cap_params;
  sn_instr **params;            /* by number; a slot is NULL while a parse is under way */
  const char *execution_thread; /* or NULL */
  sn_loc loc;
  struct sn_map *names;         /* instruction names; ir/ internal */
};

/* Debug tables of the text form: FileNames, FunctionNames, FileLocations, StackFrames. Ids start at 1 and index the arrays at id - 1. */
typedef struct sn_file_location { int32_t file, function, line, end_line, column, end_column; } sn_file_location;
typedef struct sn_stack_frame { int32_t location, parent; } sn_stack_frame; /* parent as written: the parent's id plus one… see golden notes */
typedef struct sn_debug_tables {
  int64_t n_files, n_functions, n_locations, n_frames;
  const char **files, **functions;
  sn_file_location *locations;
  sn_stack_frame *frames;
} sn_debug_tables;

struct sn_module {
  sn_arena *arena;
  const char *name;
  sn_computation *first, *last, *entry;
  uint32_t n_computations, n_ids, n_comp_ids;
  bool is_scheduled;
  int64_t replica_count, num_partitions; /* 1: not printed */
  /* Binding shapes of the entry: parameters and result with layouts. NULL until set: then those of the entry computation. */
  int64_t n_entry_params;
  const sn_shape *const *entry_params;
  const sn_shape *entry_result;
  int64_t n_aliases;                /* input_output_alias */
  const sn_alias *aliases;
  int64_t n_donors;                 /* buffer_donor: operand, operand_index used */
  const sn_alias *donors;
  bool alias_passthrough_params;
  sn_ints spmd_to_parameters, spmd_to_output; /* allow_spmd_sharding_propagation_to_…: 0/1; n = 0: absent */
  int64_t n_frontend;
  const sn_pair *frontend;
  const sn_pair *extras;            /* other header attributes, as raw text; ends with key NULL; or NULL */
  sn_debug_tables debug;
  struct sn_module_private *priv;   /* name counters, retained literals; ir/ internal */
};

SN_NODISCARD sn_status sn_module_create(const char *name, sn_module **out);
void sn_module_destroy(sn_module *m);
/* Copies the living into a fresh arena; pointers into m are invalid afterwards (m itself stays). */
SN_NODISCARD sn_status sn_module_compact(sn_module *m);
/* Deep copy; names and ids of instructions kept. */
SN_NODISCARD sn_status sn_module_clone(const sn_module *m, sn_module **out);
/* Equal programs: structure, ops, shapes (layouts with SN_EQ_LAYOUT), attributes, called computations; names of instructions and computations,
 * metadata and ids do not count. */
bool sn_module_equal(const sn_module *a, const sn_module *b, int flags);
/* The same for two computations (called ones compared recursively, each pair once), and for two instructions given equal operands. */
bool sn_computation_equal(const sn_computation *a, const sn_computation *b, int flags);
uint64_t sn_computation_hash(const sn_computation *c); /* equal computations have equal hashes */
uint64_t sn_module_hash(const sn_module *m);
bool sn_attr_equal(const sn_attr *a, const sn_attr *b);
uint64_t sn_attr_hash(const sn_attr *a, uint64_t seed);
/* Keeps a reference to `a` until the module goes. */
SN_NODISCARD sn_status sn_module_keep(sn_module *m, sn_array *a);

/* Appended last; move with _move_before. name NULL: "computation.N". Made unique by a suffix unless it already is. */
SN_NODISCARD sn_status sn_computation_create(sn_module *m, const char *name, sn_computation **out);
void sn_computation_erase(sn_computation *c);  /* must not be called by anyone */
void sn_computation_move_before(sn_computation *c, sn_computation *before); /* NULL: to the end */
void sn_computation_set_root(sn_computation *c, sn_instr *root);
void sn_module_set_entry(sn_module *m, sn_computation *c);
sn_instr *sn_computation_find(const sn_computation *c, const char *name);
sn_computation *sn_module_find(const sn_module *m, const char *name);
/* Copies c (called computations shared, not copied) into module `to` (may be another: then called ones are copied too, each once). */
SN_NODISCARD sn_status sn_computation_clone(const sn_computation *c, sn_module *to, const char *name, sn_computation **out);

/* What an instruction is made from. Everything pointed to is copied. */
typedef struct sn_instr_spec {
  sn_opcode op;
  const char *name;       /* NULL: "opcode.N" */
  const sn_shape *shape;  /* NULL: inferred (an error where the shape rule is `given`) */
  uint32_t n_operands;
  sn_instr *const *operands;
  uint32_t n_attrs;
  const sn_attr *attrs;   /* any order; defaults are dropped */
  uint32_t n_called;
  sn_computation *const *called;
  const sn_metadata *metadata;
  sn_loc loc;
  bool unchecked;         /* no inference, no checks: parsers that verify later, and copies */
  bool in_arena;          /* name, shape, metadata and what attributes point to live in the module's arena already and are not copied */
} sn_instr_spec;

/* Appends to c. Checks arity, attributes and shape as the verifier does; errors are reported at spec->loc. */
SN_NODISCARD sn_status sn_instr_create(sn_diag *d, sn_computation *c, const sn_instr_spec *spec, sn_instr **out);
/* Unlinks; must have no uses (and not be the root). Its control edges go too. */
void sn_instr_erase(sn_instr *i);
void sn_instr_move_before(sn_instr *i, sn_instr *before); /* same computation; NULL: to the end */
void sn_instr_set_operand(sn_instr *i, uint32_t k, sn_instr *def);
/* New list of operands (fusions, tuples, whiles grow). */
SN_NODISCARD sn_status sn_instr_set_operands(sn_instr *i, uint32_t n, sn_instr *const *operands);
/* Every use of `from` becomes a use of `to` (but uses by `to` itself stay), the root too. */
void sn_instr_replace_uses(sn_instr *from, sn_instr *to);
SN_NODISCARD sn_status sn_instr_set_attr(sn_instr *i, sn_attr a); /* adds, replaces, or drops when it is the default */
void sn_instr_drop_attr(sn_instr *i, sn_attr_id id);
void sn_instr_set_called(sn_instr *i, uint32_t k, sn_computation *c);
void sn_instr_set_shape(sn_instr *i, const sn_shape *s); /* s in the module's arena */
SN_NODISCARD sn_status sn_instr_set_name(sn_instr *i, const char *name);
SN_NODISCARD sn_status sn_instr_add_control(sn_instr *i, sn_instr *predecessor);
void sn_instr_drop_control(sn_instr *i);
void sn_instr_set_metadata(sn_instr *i, const sn_metadata *md);     /* copied */
void sn_instr_set_sharding(sn_instr *i, const sn_sharding *s);      /* copied; NULL drops */
SN_NODISCARD sn_status sn_instr_set_backend_config(sn_instr *i, const char *text, bool quoted); /* copied; NULL drops */
SN_NODISCARD sn_status sn_instr_set_frontend(sn_instr *i, const char *key, const char *value);  /* value NULL drops the key */
const char *sn_instr_frontend(const sn_instr *i, const char *key); /* NULL when absent */
/* Metadata, sharding, frontend attributes, control edges are taken over from `from` where `to` has none. */
SN_NODISCARD sn_status sn_instr_copy_notes(sn_instr *to, const sn_instr *from);
/* Copy of i appended to c with other operands (NULL: the same ones) and shape (NULL: the same); called computations shared. */
SN_NODISCARD sn_status sn_instr_clone(const sn_instr *i, sn_computation *c, sn_instr *const *operands, const sn_shape *shape, sn_instr **out);

/* Removes a parameter / adds one at the end, renumbering; callers' operands are the caller's business. */
SN_NODISCARD sn_status sn_computation_remove_param(sn_computation *c, uint32_t number); /* must be unused */

/* Reading. */
static inline sn_instr *sn_instr_operand(const sn_instr *i, uint32_t k) { return i->operands[k].def; }
static inline const sn_shape *sn_operand_shape(const sn_instr *i, uint32_t k) { return i->operands[k].def->shape; }
const sn_attr *sn_instr_attr(const sn_instr *i, sn_attr_id id);      /* NULL when absent */
int64_t sn_instr_int(const sn_instr *i, sn_attr_id id);              /* absent: the table's default (0 when it has none) */
static inline bool sn_instr_bool(const sn_instr *i, sn_attr_id id) { return sn_instr_int(i, id) != 0; }
double sn_instr_f64(const sn_instr *i, sn_attr_id id);
sn_ints sn_instr_ints(const sn_instr *i, sn_attr_id id);             /* absent: n = 0 */
const char *sn_instr_str(const sn_instr *i, sn_attr_id id);          /* absent: NULL */
sn_array *sn_instr_literal(const sn_instr *i);                       /* of a constant; NULL when elided */
const sn_window *sn_instr_window(const sn_instr *i);                 /* NULL when absent */
const sn_conv_dims *sn_instr_conv(const sn_instr *i);
static inline bool sn_instr_is_root(const sn_instr *i) { return i->parent->root == i; }
/* Users without repeats, in order: iterate uses and skip while use->user == previous user… or count with this. */
uint32_t sn_instr_n_users(const sn_instr *i);
/* Are there at least n of them? Looks at no more uses than it must. */
bool sn_instr_has_users(const sn_instr *i, uint32_t n);
/* Has an effect beyond its result, itself or through called computations (custom calls: their attribute). */
bool sn_instr_has_effect(const sn_instr *i);
/* A scalar constant, or a broadcast of one: its value as double. */
bool sn_instr_constant_f64(const sn_instr *i, double *out);
/* Is this computation exactly `op(param 0, param 1)`, in either order where it commutes (reducers)? */
bool sn_computation_is_binary(const sn_computation *c, sn_opcode *op);

#define SN_FOR_INSTRS(i, c) for (sn_instr *i = (c)->first; i; i = i->next)
/* Safe when the body erases i (not its successor). */
#define SN_FOR_INSTRS_SAFE(i, c) for (sn_instr *i = (c)->first, *i##_next = i ? i->next : NULL; i; i = i##_next, i##_next = i ? i->next : NULL)
#define SN_FOR_COMPUTATIONS(c, m) for (sn_computation *c = (m)->first; c; c = c->next)
#define SN_FOR_USES(u, i) for (sn_use *u = (i)->first_use; u; u = u->next)

/* Puts a computation's instructions into an order in which operands and control predecessors come first, changing as little as possible.
 * SN_ERR_VERIFY on a cycle. */
SN_NODISCARD sn_status sn_computation_sort(sn_diag *d, sn_computation *c);
/* Callees before callers; SN_ERR_VERIFY on a cyclic call. */
SN_NODISCARD sn_status sn_module_sort(sn_diag *d, sn_module *m);
/* Computations that nobody calls are dropped (the entry stays). */
void sn_module_drop_dead_computations(sn_module *m);

/* ---- call graph -------------------------------------------------------------------------------------------------------- */

typedef struct sn_call_graph {
  uint32_t n;                 /* module->n_comp_ids */
  uint32_t *n_callers;        /* by computation id */
  sn_instr ***callers;        /* calling instructions */
  bool *in_fusion;            /* reachable from a fusion's body */
  bool *is_applied;           /* used as a reducer, comparator, … (to_apply of a non-call) */
} sn_call_graph;
SN_NODISCARD sn_status sn_call_graph_build(sn_arena *a, const sn_module *m, sn_call_graph *out);

/* ---- shape inference and verification -------------------------------------------------------------------------------------- */

/* What inference looks at; the instruction need not exist yet. */
typedef struct sn_infer {
  sn_opcode op;
  sn_loc loc;
  const char *name; /* for messages; may be NULL */
  uint32_t n_operands;
  const sn_shape *const *operands;
  uint32_t n_attrs;
  const sn_attr *attrs;
  uint32_t n_called;
  sn_computation *const *called;
  const sn_shape *given; /* the stated shape or NULL */
  sn_arena *arena;       /* for the result */
  int64_t replica_count, num_partitions; /* for collectives; 0 = unknown */
} sn_infer;

/* The shape the op gives. Array results carry no layout (`bitcast`, and ops whose row says `given`, return the stated shape).
 * Reports the first fault at in->loc: what was expected, what was found, a hint. */
SN_NODISCARD sn_status sn_infer_shape(sn_diag *d, const sn_infer *in, const sn_shape **out);

enum { SN_VERIFY_LAYOUTS = 1 /* after layout assignment: entry and operands' layouts agree with the op's rules */ };
/* Lists every fault (numbered constraints: verify.def) of the module; SN_ERR_VERIFY when there was one. Linear in the size of the module. */
SN_NODISCARD sn_status sn_module_verify(sn_diag *d, const sn_module *m, int flags);

#ifdef __cplusplus
}
#endif
#endif
