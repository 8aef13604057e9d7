/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef TESTS_NN_TESTS_H
#define TESTS_NN_TESTS_H

#include <check.h>

#include "sinter/eval.h"
#include "sinter/models.h"

TCase *params_tests(void);
TCase *layers_tests(void);
TCase *models_tests(void);
TCase *steps_tests(void);
TCase *vit_tiny_tests(void);
TCase *text_models_tests(void);

/* Ends the test with everything d holds unless s is SN_OK. */
void must(sn_diag *d, sn_status s);
const char *data_path(const char *name); /* below SINTER_TEST_DATA */
sn_array *f32_array(int rank, const int64_t *dims, const float *values);
sn_array *s32_array(int rank, const int64_t *dims, const int32_t *values);
/* Runs the module with the parameters (in tree order), state (may be NULL) and inputs; the result tuple. */
sn_array *run_step(const sn_step *s, const sn_params *t, const sn_bundle *params, const sn_bundle *state, int n_inputs, sn_array *const *inputs);
/* Takes parameters and state out of a training step's result. */
void take_step(const sn_step *s, const sn_params *t, sn_array *result, sn_bundle *params, sn_bundle *state);

#endif
