/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_NN_INTERNAL_H
#define SINTER_NN_INTERNAL_H

#include "sinter/nn.h"

#define SN_NN_DEPTH 64

struct sn_nn {
  sn_graph *g;
  sn_params *tree;
  const sn_tensor *values; /* NULL: declaring */
  sn_nn_options o;
  sn_map *declared;        /* name -> instruction, while declaring */
  sn_tensor *updated;      /* by index of the tree */
  sn_str prefix;           /* "outer.inner." */
  size_t marks[SN_NN_DEPTH];
  int depth;
  int64_t n_keys;
  sn_init weight_init;     /* SN_INIT_COPY: none set */
};

sn_init sn_nn_weight_init(const sn_nn *nn, sn_init own);

#endif
