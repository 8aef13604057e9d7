/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-train: builds the training step of a model as one HLO module and runs it over a data set. */
#include "train.h"

static const sn_option model_options[] = {
    {"model", 'm', SN_OPT_TEXT, "NAME", NULL, "vit-b16, vit-tiny, vit-digits, mlp, linear, linear-regression, convnet, bert or gpt; vit, bert or gpt with --config", 0, 0},
    {"config", 0, SN_OPT_TEXT, "config.json", NULL, "the model as Hugging Face describes it; default: beside --init", 0, 0},
    {"init", 0, SN_OPT_TEXT, "FILE|DIR", NULL, "weights to begin with: model.safetensors, or a folder that holds it", 0, 0},
    {"new-head", 0, SN_OPT_FLAG, NULL, NULL, "replace the classifier of --init by a fresh one for the labels of the data", 0, 0},
    {"trainable", 0, SN_OPT_TEXT, "REGEX", NULL, "train only the parameters whose names match", 0, 0},
    {"lora", 0, SN_OPT_INT, "RANK", "0", "gpt: train low-rank companions of the attention's weights alone; what is written has them added in. 0: off", 0, 65536},
    {"lora-alpha", 0, SN_OPT_NUMBER, "X", "16", "their scale is X / RANK", 0, 1e6},
    {"compute", 0, SN_OPT_CHOICE, "f32|bf16|f16", "f32", "type of activations and products; parameters stay f32", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option data_options[] = {
    {"data", 'd', SN_OPT_TEXT, "KIND:DIR", NULL, "digits:DIR, idx:DIR, cifar10:DIR, folder:DIR, tokens:DIR or synthetic", 0, 0},
    {"preprocessor", 0, SN_OPT_TEXT, "FILE", NULL, "preprocessor_config.json; default: beside --init, else resize to the model's size and scale to -1…1", 0, 0},
    {"image-size", 0, SN_OPT_INT, "N", "0", "side of the images for models that do not say one; 0: as the data have it", 0, 65536},
    {"flip", 0, SN_OPT_FLAG, NULL, NULL, "mirror half of the training images at random", 0, 0},
    {"val-fraction", 0, SN_OPT_NUMBER, "X", "0.1", "share of folder:DIR or tokens:DIR to test on when it has no such part", 0, 0.99},
    {"samples", 0, SN_OPT_INT, "N", "1024", "images or sequences of synthetic", 1, 1e9},
    {"length", 0, SN_OPT_INT, "N", "0", "tokens a sequence of synthetic; 0: all that the model has positions for", 0, 1e9},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option run_options[] = {
    {"epochs", 'e', SN_OPT_INT, "N", "10", "passes over the data", 1, 1e9},
    {"steps", 0, SN_OPT_INT, "N", "0", "stop after so many steps; 0: after the epochs", 0, 1e15},
    {"batch", 'b', SN_OPT_INT, "N", "64", "images or sequences a step", 1, 1e7},
    {"accumulate", 0, SN_OPT_INT, "N", "1", "do the batch in N parts, one after the other", 1, 1e6},
    {"eval-only", 0, SN_OPT_FLAG, NULL, NULL, "test the weights of --init or --checkpoint and leave", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option optimizer_options[] = {
    {"optimizer", 0, SN_OPT_CHOICE, "sgd|adam|adamw|lamb", "adamw", "how gradients move parameters", 0, 0},
    {"lr", 0, SN_OPT_NUMBER, "X", "0.001", "learning rate", 0, 1e6},
    {"momentum", 0, SN_OPT_NUMBER, "X", "0", "of sgd", 0, 0.9999},
    {"nesterov", 0, SN_OPT_FLAG, NULL, NULL, "Nesterov's form of momentum", 0, 0},
    {"beta1", 0, SN_OPT_NUMBER, "X", "0.9", "of adam, adamw, lamb", 0, 0.99999999},
    {"beta2", 0, SN_OPT_NUMBER, "X", "0.999", "of adam, adamw, lamb", 0, 0.99999999},
    {"weight-decay", 0, SN_OPT_NUMBER, "X", "0.01", "of every parameter; decoupled in adamw and lamb", 0, 1e3},
    {"decay", 0, SN_OPT_CHOICE, "all|matrices", "all", "what decays: matrices spares biases and norms", 0, 0},
    {"schedule", 0, SN_OPT_CHOICE, "constant|cosine|linear|step", "cosine", "of the learning rate; cosine and linear end at 0", 0, 0},
    {"warmup-steps", 0, SN_OPT_INT, "N", "0", "steps of linear rise before the schedule", 0, 1e12},
    {"step-size", 0, SN_OPT_INT, "N", "1000", "steps between drops of the step schedule", 1, 1e12},
    {"gamma", 0, SN_OPT_NUMBER, "X", "0.1", "factor of a drop of the step schedule", 0, 1},
    {"clip-norm", 0, SN_OPT_NUMBER, "X", "0", "largest norm of all gradients together; 0: off", 0, 1e9},
    {"ema", 0, SN_OPT_NUMBER, "X", "0", "decay of a running mean of the parameters, which is then tested and written; 0: off", 0, 0.99999999},
    {"label-smoothing", 0, SN_OPT_NUMBER, "X", "0", "share of the target spread over all labels", 0, 0.999},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option output_options[] = {
    {"checkpoint", 'c', SN_OPT_TEXT, "DIR", NULL, "config.json, model.safetensors and the state of the run, after each epoch and at the end", 0, 0},
    {"resume", 0, SN_OPT_FLAG, NULL, NULL, "continue the run whose state lies in --checkpoint, to the bit", 0, 0},
    {"keep", 0, SN_OPT_INT, "N", "3", "states to keep", 1, 1000},
    {"save-steps", 0, SN_OPT_INT, "N", "0", "save also after every N steps; 0: off", 0, 1e12},
    {"log", 0, SN_OPT_TEXT, "FILE.csv", NULL, "a line an epoch", 0, 0},
    {"plot", 0, SN_OPT_TEXT, "FILE.svg", NULL, "draw loss and accuracy", 0, 0},
    {"tensorboard", 0, SN_OPT_TEXT, "DIR", NULL, "write an event file", 0, 0},
    {"dump-step", 0, SN_OPT_TEXT, "FILE.hlo", NULL, "the training step as HLO text, its first arguments and results beside it in FILE.safetensors", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"Model", model_options}, {"Data", data_options},     {"Run", run_options},
                                         {"Optimiser", optimizer_options}, {"Passes", sn_options_passes}, {"Output", output_options}, {"Engine", sn_options_engine}, {NULL, NULL}};

static const sn_tool tool = {"sinter-train", "trains a model: the whole step, gradients and update included, is one HLO module", NULL, 0, 0, groups,
                             "The last line is `test accuracy X`. Ctrl-C saves the state and ends; --resume goes on from there, to the same bits.\n"
                             "Example: sinter-train --model=vit-digits --data=digits:tests/data/digits --epochs=20 --checkpoint=run --plot=run.svg"};

static int check_usage(const sn_options *o) {
  if (!sn_opt_given(o, "data")) return sn_usage_error(&tool, "--data is missing: what to train on, such as --data=digits:tests/data/digits");
  if (sn_opt_flag(o, "resume") && !sn_opt_given(o, "checkpoint")) return sn_usage_error(&tool, "--resume needs --checkpoint=DIR, the folder of the run to continue");
  if (sn_opt_flag(o, "new-head") && !sn_opt_given(o, "init")) return sn_usage_error(&tool, "--new-head needs --init, the weights whose classifier it replaces");
  if (sn_opt_flag(o, "eval-only") && !sn_opt_given(o, "init") && !sn_opt_given(o, "checkpoint"))
    return sn_usage_error(&tool, "--eval-only needs weights: --init, or the --checkpoint of a run");
  if (!sn_opt_given(o, "model") && !sn_opt_given(o, "config") && !sn_opt_given(o, "init") && !sn_opt_given(o, "resume"))
    return sn_usage_error(&tool, "what to train is missing: --model or --config");
  return SN_EXIT_OK;
}

static sn_status train(trainer *t) {
  bool interrupted = false;
  double loss;
  SN_TRY(train_setup(t));
  if (sn_opt_flag(t->o, "eval-only")) {
    SN_TRY(train_evaluate(t, &loss, &t->last_accuracy));
    printf("test loss %.4f\n", loss);
  } else {
    SN_TRY(train_run(t, &interrupted));
  }
  const char *checkpoint = sn_opt_text(t->o, "checkpoint"), *plot = sn_opt_text(t->o, "plot");
  if (checkpoint && t->saved_once) printf("checkpoint: %s\n", checkpoint);
  if (plot && t->n_history) printf("plot: %s\n", plot);
  if (interrupted && checkpoint) printf("interrupted after step %lld; --resume goes on from here\n", (long long)t->step);
  else if (interrupted) printf("interrupted after step %lld; nothing was saved: there is no --checkpoint\n", (long long)t->step);
  else printf("test accuracy %.4f\n", t->last_accuracy);
  return SN_OK;
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  trainer t = {.tool = &tool};
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  code = check_usage(o);
  sn_status s = SN_OK;
  if (code == SN_EXIT_OK) {
    t.o = o;
    s = sn_diag_create(&t.d);
    if (s == SN_OK) s = train(&t);
    report_clear();
    code = sn_tool_report(&tool, t.d, s);
    train_finish(&t);
    sn_diag_destroy(t.d);
  }
  sn_options_destroy(o);
  return fflush(stdout) == 0 ? code : SN_EXIT_BAD;
}
