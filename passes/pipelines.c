/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The pipelines, on one screen. Each line: pass, lowest -O at which it runs, and why it stands where it stands. */
#include "passes_internal.h"

#include <string.h>

#define P(id, level) {SN_STEP_PASS, SN_PASS_##id, level, NULL, 0}
#define GROUP(text, rounds) {SN_STEP_GROUP, SN_PASS_COUNT, 0, text, rounds}
#define END {SN_STEP_END, SN_PASS_COUNT, 0, NULL, 0}
#define STOP {SN_STEP_STOP, SN_PASS_COUNT, 0, NULL, 0}

/* Every pipeline opens so: whoever wrote the module, afterwards it has one form. */
#define CANONICAL                                                                                                    \
  P(dce, 0),             /* first: what nobody reads costs nothing in all that follows */                            \
  P(strip_layouts, 0),   /* before any rewrite: later passes see values, not memory */                               \
  P(sharding_remove, 0), /* behind any partitioning, which reads what it drops */                                    \
  P(collective_remove, 0), /* likewise */                                                                            \
  P(inline, 0),          /* before flatten: what is inlined need not be copied */                                    \
  P(flatten, 0),         /* before loop and branch passes: they edit bodies that have one caller */                  \
  P(tuple_simplify, 0),  /* after inline: calls returned tuples */                                                   \
  P(zero_size, 0),       /* before products are canonical: their reshapes divide by sizes */                         \
  P(expand_batch_norm, 0), /* no target has these three: before algebra, which tidies what they write */             \
  P(expand_topk, 0),                                                                                                 \
  P(expand_rng, 0),      /* behind inline: draws of the entry are in the entry */                                    \
  P(float_normalize, 0),                                                                                             \
  P(conv_canonical, 0),  /* before dot_canonical: convolutions without space become dots */                          \
  P(dot_canonical, 0),   /* before algebra: its rules for products know the canonical form alone */                  \
  P(dedup, 0),           /* before cse: equal reducers must be one for their callers to be equal */                  \
  P(dce, 0)

/* To a fixed point: each pass feeds the others. */
#define SIMPLIFY                                                                                                     \
  GROUP("simplify", 8),                                                                                              \
  P(algebra, 1),                                                                                                     \
  P(algebra_reassoc, 1), /* exact rules first: they keep more */                                                     \
  P(algebra_formula, 1),                                                                                             \
  P(patch_conv, 1),      /* before the second dot_canonical: it makes products */                                    \
  P(dot_canonical, 1),   /* convolutions of one pixel and of patches became dots */                                  \
  P(reshape_mover, 1),   /* behind the products' reshapes: they sink away from them */                               \
  P(fold, 1),            /* after the rules: they brought constants together */                                      \
  P(while_simplify, 1),  /* behind fold: bounds and starts are constants now */                                      \
  P(conditional_simplify, 1),                                                                                        \
  P(tuple_simplify, 1),                                                                                              \
  P(cse, 1),             /* before dce: leaves dead copies behind */                                                 \
  P(dce, 1),             /* last: the next round sees true numbers of users */                                       \
  END

/* Once, behind the fixed point: these would undo each other inside it (conversions move through what reshape_mover moves). */
#define MOVE                                                                                                         \
  P(layout_assignment, 1), /* behind patch_conv and the rules: only what stays a convolution has a say; before algebra, which folds what it transposes */ \
  P(convert_mover, 1),                                                                                               \
  P(while_hoist, 2),     /* behind the constants that sank: they need not be handed in */                            \
  P(dot_merge, 2),       /* late: by now equal products are one already, and shared operands are one instruction */  \
  P(algebra, 1),                                                                                                     \
  P(cse, 1),                                                                                                         \
  P(dce, 1)

/* One kernel a fusion. */
#define FUSION                                                                                                       \
  P(softmax_reuse, 1),   /* before fusion: it decides what is stored */                                              \
  P(reduce_split, 1),    /* before fusion: row reductions take what feeds them */                                    \
  P(recognise_patterns, 1), /* right before fusion, which names what it makes of them: nothing may move marked instructions */ \
  P(fusion, 1) /* after the rules: they see single ops; before the schedule: it orders what really runs */

/* Last: nothing may move instructions any more, but whole commands. */
#define ORDER                                                                                                        \
  P(custom_call_layout, 0), /* behind all that looks at values alone, before the order is fixed */                   \
  P(schedule, 0), P(remat, 1) /* what waits long is known by the order */

#define MEMORY                                                                                                       \
  ORDER,                                                                                                             \
  P(command_merge, 2), /* behind remat: it works on single fusions; before copies: which results may lie over operands changes */ \
  P(copy_insertion, 0) /* copies depend on the order */

/* Recognised while ops are single, before fusion takes them apart. */
#define PATTERNS P(attention_fusion, 1)

static const sn_step cpu[] = {CANONICAL, SIMPLIFY, MOVE, PATTERNS, FUSION, MEMORY, STOP};
static const sn_step cuda[] = {CANONICAL, SIMPLIFY, MOVE, PATTERNS, FUSION, MEMORY, STOP};
static const sn_step op_by_op[] = {CANONICAL, SIMPLIFY, MOVE, MEMORY, STOP}; /* the same canonical passes; no fusion: one kernel an op */

static const struct { const char *name; const sn_step *steps; } pipelines[] = {{"cpu", cpu}, {"cuda", cuda}, {"op-by-op", op_by_op}};

const sn_step *sn_pipeline_find(const char *name) {
  for (size_t k = 0; k < sizeof pipelines / sizeof *pipelines; k++) {
    if (strcmp(pipelines[k].name, name) == 0) return pipelines[k].steps;
  }
  return NULL;
}
