/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the fusion pass share.
 *
 * One computation at a time. Instructions are known by their position in it (operands come before users). `facts.c` says of each what kind of work it is, `groups.c`
 * puts it into groups, `build.c` makes a fusion of each group. */
#ifndef SINTER_FUSION_H
#define SINTER_FUSION_H

#include "../passes_internal.h"
#include "sinter/cost.h"

#define FU_NONE UINT32_MAX

/* What an instruction is to a fusion. */
typedef enum fu_class {
  FU_ALONE,   /* stays as it is: parameters, control flow, library calls, large constants, scatter, sort, … */
  FU_FREE,    /* costs nothing anywhere: scalar constants, broadcasts, iotas, reshapes */
  FU_CHEAP,   /* an operation or two an element */
  FU_COSTLY,  /* elementwise, but worth computing once: transcendentals, divisions */
  FU_MOVE,    /* elements from other places: transpose, slice, pad, concatenate, gather */
  FU_ROW,     /* reduces the last dimensions */
  FU_COLUMNS, /* reduces the first dimensions, or all, in two phases */
  FU_HERO     /* products, convolutions, other reductions: may end in elementwise work, may not be repeated */
} fu_class;

enum { FU_MAX_LEAVES = 6, FU_MANY_LEAVES = 255 };

typedef struct fu_fact {
  sn_instr *i;
  fu_class cls;
  int64_t elements, bytes; /* of an array result */
  float ops;               /* operations an element */
  uint32_t reach;          /* one more than the latest position of heavy work that this depends on or is; 0: none */
  uint32_t hero;           /* the FU_HERO each of whose elements becomes one element of this (elementwise, renamed); FU_NONE: none */
  uint16_t hero_steps;     /* how many instructions lie between */
  uint64_t order;          /* hash of the transposes on the way: equal ones come from equal elements of the hero */
  bool meeting;            /* heavy results meet here, and several read it: stored in any case */
  bool solo;               /* nobody reads what lies between but what leads here */
  uint8_t n_leaves;        /* the stored values it can be computed from without heavy work; FU_MANY_LEAVES: too many to list */
  uint32_t leaves[FU_MAX_LEAVES];
} fu_fact;

/* How a group reads one of its members, which says how often it is computed. */
typedef enum fu_level {
  FU_SCALAR, /* one element: once an item */
  FU_ROWS,   /* the leading dimensions of the results: once a row */
  FU_FULL,   /* the results' own elements */
  FU_MOVED,  /* as many elements, in another order */
  FU_SIDE    /* repeated along leading dimensions: again and again */
} fu_level;

typedef struct fu_group fu_group;

/* A group that reads a value. */
typedef struct fu_want {
  fu_group *group;
  fu_level level;
  uint16_t depth;    /* steps from the group's results */
  bool prologue;     /* on the way into a hero */
  bool refused;      /* read from memory */
  uint32_t at;       /* what is read */
  struct fu_want *next, *next_own; /* of the same value; of the same group */
} fu_want;

typedef struct fu_member { uint32_t at; bool result; } fu_member;
typedef struct fu_leaf { uint32_t at; uint32_t n; } fu_leaf;
enum { FU_GROUP_LEAVES = 24 };

struct fu_group {
  uint32_t anchor;          /* its last member; the fusion stands there, which orders groups: results are read behind it, operands are made before it */
  uint32_t hero;            /* the FU_HERO it was begun for; FU_NONE: none */
  bool hero_in;             /* … is a member */
  bool product;             /* the hero is a product large enough for the packed template */
  bool columns;             /* results are column or whole reductions */
  bool has_rows;            /* holds row reductions */
  int64_t rows, row_length; /* with has_rows */
  int64_t elements, work_elements; /* of the anchor; the most that any member is computed for */
  int n_work, n_free, n_inputs, n_prologue, n_side, n_results;
  int n_sums;               /* of its columns, beside its elements */
  uint32_t n, cap;
  fu_member *members;       /* from the last to the first; none: absorbed by another group */
  fu_want *wants;           /* all that it ever wanted, the last first */
  uint32_t n_leaves;
  fu_leaf leaves[FU_GROUP_LEAVES]; /* stored values that members not yet looked at can be computed from, with how many of them want it */
  struct fu_group *next;    /* the one begun before */
};

/* A pattern that recognise-patterns marked. */
typedef struct fu_pattern {
  int kind;                 /* sn_pattern */
  uint32_t n_members;       /* that do work */
  uint32_t root;            /* the last of them */
  uint32_t n_groups, last;  /* how many hold some of them; the anchor of the last, plus one */
  const sn_instr *fusion;   /* the one that holds them all; NULL: none */
  bool only;                /* … and nothing else */
} fu_pattern;

typedef struct fu_state {
  sn_pass_ctx *pc;
  sn_computation *c;
  uint32_t n;
  fu_fact *facts;           /* by position */
  const uint32_t *position; /* by instruction id */
  fu_want **wants;          /* by position: groups that read it */
  uint32_t *needed;         /* by position: the first instruction outside all groups that reads it; FU_NONE: none */
  fu_group **home;          /* by position: the group that stores it; NULL: none */
  bool *renamed;            /* by position: a reshape outside all groups, which becomes a bitcast */
  fu_group *groups;         /* the last begun first */
  uint32_t *mark;           /* by position: one more than the recognised pattern that it is a member of; 0: none */
  uint32_t n_patterns;
  fu_pattern *patterns;
  sn_rates rates;           /* what the machine does in a microsecond */
} fu_state;

/* ---- facts.c ---- */

SN_NODISCARD sn_status sn_fusion_facts(fu_state *f);
bool sn_fusion_is_product(const sn_target *target, const sn_instr *i); /* a dot or convolution, large and of a type that the packed template takes */
bool sn_fusion_leading_dims(const sn_instr *broadcast); /* does the operand keep its dimensions in front, so that only inner ones are new? */

/* ---- groups.c ---- */

SN_NODISCARD sn_status sn_fusion_groups(fu_state *f);
bool sn_fusion_read_behind(const fu_state *f, const fu_group *g, uint32_t at); /* all that read `at` stand behind the anchor of g */
enum { FU_MOST_INPUTS = 60 };

/* ---- side_sums.c ---- */

/* Sums of columns stand as early as they can: in front of groups that could take them along. Before positions are given. */
void sn_fusion_hoist_sums(fu_state *f);
/* The group that reads all that the sum at `at` is made of, row by row, and may add up its columns meanwhile; NULL: none. */
fu_group *sn_fusion_host_of_sum(const fu_state *f, uint32_t at);

/* ---- horizontal.c ---- */

SN_NODISCARD sn_status sn_fusion_horizontal(fu_state *f);

/* ---- names.c ---- */

/* Takes the marks of patterns off the instructions and keeps them. Behind sn_fusion_facts. */
SN_NODISCARD sn_status sn_fusion_read_marks(fu_state *f);
/* Which patterns (bits) a group holds all of; *only: nothing else. */
uint32_t sn_fusion_patterns_in(const fu_state *f, const fu_group *g, bool *only);
void sn_fusion_note_patterns(fu_state *f, const fu_group *g, bool only, const sn_instr *fusion);
/* "softmax", "gelu,layer-norm": patterns by bits, in the order of their table. */
void sn_fusion_pattern_names(uint32_t patterns, char separator, char *to, size_t cap);
/* What became of each pattern, as remarks. */
void sn_fusion_report_patterns(const fu_state *f);

/* ---- build.c ---- */

SN_NODISCARD sn_status sn_fusion_build(fu_state *f);

static inline uint32_t fu_position(const fu_state *f, const sn_instr *i) { return f->position[i->id]; }
static inline const fu_fact *fu_operand(const fu_state *f, const sn_instr *i, uint32_t k) { return &f->facts[fu_position(f, sn_instr_operand(i, k))]; }

#endif
