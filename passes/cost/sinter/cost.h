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

/* Rates of the machine, with defaults in place of what a description leaves out: bytes and operations a microsecond, microseconds a command. */
typedef struct sn_rates { double bytes, ops, products, launch; } sn_rates;
void sn_cost_rates(const sn_target *target, sn_rates *out);

#ifdef __cplusplus
}
#endif
#endif
