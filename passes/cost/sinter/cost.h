/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cost model: operations and bytes of an instruction or a fusion, and the time a machine needs for them by the roofline. */
#ifndef SINTER_COST_H
#define SINTER_COST_H

#include "sinter/ir.h"
#include "sinter/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of fusion by hero, with what they reach of the machine: one row each in heroes.def. */
typedef enum sn_hero {
#define SN_HERO(id, text, maths, memory, prologue, results, what) SN_HERO_##id,
#include "sinter/heroes.def"
#undef SN_HERO
  SN_HERO_COUNT
} sn_hero;

typedef struct sn_hero_info {
  const char *text;
  double maths, memory; /* share of the machine's peaks that its kernels reach */
  int prologue;         /* most operations an element of a product's operands */
  int results;          /* most results */
  const char *what;
} sn_hero_info;
extern const sn_hero_info sn_heroes[SN_HERO_COUNT];
/* From the `kind` in a fusion's backend_config; SN_HERO_LOOP without one. */
sn_hero sn_hero_of(const sn_instr *fusion);

typedef struct sn_cost {
  double products; /* operations of products and convolutions: a multiply and an add each count */
  double flops;    /* all operations, an elementwise function counted as what it takes */
  double bytes;    /* operands read and results written */
  double us;
} sn_cost;

/* Operations for one element of the result: 0 for what only moves or names elements. Reductions, products and convolutions: sn_cost_of. */
double sn_cost_element(const sn_instr *i);
/* Of one run of i; a loop counts its known trips, else one. target NULL: a generic one. */
void sn_cost_of(const sn_target *target, const sn_instr *i, sn_cost *out);
/* Of all that a computation runs. */
void sn_cost_of_computation(const sn_target *target, const sn_computation *c, sn_cost *out);

/* Share of the peak of products that a convolution reaches when these dimensions of input, kernel and result lie closest in memory; NULL: the last ones. */
double sn_cost_convolution_share(const sn_target *target, const sn_instr *conv, const int64_t minor[3]);

/* ---- products in bf16 ---- */

/* Into how many products of bf16 terms the dot's types or algorithm let it be taken apart; 0: into none. */
int sn_dot_bf16_products(const sn_instr *dot);
/* How long they take, of the time in f32; 0: there are none. */
double sn_dot_bf16_time(const sn_target *target, const sn_instr *dot);
/* Are they faster? Then the lowering multiplies those. */
bool sn_dot_runs_in_bf16(const sn_target *target, const sn_instr *dot);

/* ---- convolutions as packed products ---- */

/* Neighbours in the input: so many that lie in a row; apart: which are no neighbours in memory. */
typedef struct sn_conv_row { int64_t size; bool apart; } sn_conv_row;
/* What decides how the products of a group's windows and kernels are made. */
typedef struct sn_conv_work {
  int64_t groups, images, positions, terms, features; /* positions of an image, terms of a window, features of a group */
  int64_t lanes;
  bool features_last, kernel_features_last;           /* in the result, in the kernel: they lie closest in memory */
  sn_conv_row positions_row, terms_row;               /* when windows are packed along positions, along terms */
  sn_conv_row inner_row;                              /* along positions of one image */
} sn_conv_work;
typedef struct sn_conv_way {
  int side;         /* windows are lhs (0: lanes run along features), or rhs (1: along the positions of one image after the other) */
  bool along_terms; /* packed term by term for each position; else position by position for each term */
  double share;     /* of the peak of multiply-adds */
} sn_conv_way;
void sn_conv_choose(const sn_conv_work *work, sn_conv_way *out);
/* In how many parts the products are made along this dimension: as many as the input's dilation has remainders, where each is a convolution of its own without zeros; else 1. */
int64_t sn_conv_parts(const sn_window_dim *w);
/* Is it lowered as packed products, and not in loops? shares: what it reaches of the peak either way (0: it cannot be). Asked by fusion and by the lowering. */
bool sn_conv_is_packed(const sn_target *target, const sn_instr *conv, double shares[2]);

/* Rates of the machine, with defaults in place of what a description leaves out: bytes and operations a microsecond, microseconds a command. */
typedef struct sn_rates { double bytes, ops, products, launch; } sn_rates;
void sn_cost_rates(const sn_target *target, sn_rates *out);

#ifdef __cplusplus
}
#endif
#endif
