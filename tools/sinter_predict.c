/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-predict: what a model folder, as sinter-train or Hugging Face transformers writes it, makes of images, data sets and prompts. */
#include <cjson/cJSON.h>
#include <string.h>

#include "predict.h"

static const sn_option model_options[] = {
    {"model", 'm', SN_OPT_TEXT, "DIR", NULL, "folder with config.json, model.safetensors and, for images, preprocessor_config.json", 0, 0},
    {"compute", 0, SN_OPT_CHOICE, "f32|bf16|f16", "f32", "type of activations and products of a classifier", 0, 0},
    {"layout", 0, SN_OPT_CHOICE, "auto|nchw|nhwc", "auto", "how images lie in the program; auto: nchw", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option input_options[] = {
    {"data", 'd', SN_OPT_TEXT, "KIND:DIR", NULL, "instead of images: digits:DIR, idx:DIR, cifar10:DIR, folder:DIR or synthetic; gives the accuracy", 0, 0},
    {"part", 0, SN_OPT_CHOICE, "test|train", "test", "which part of --data", 0, 0},
    {"prompt", 'p', SN_OPT_LIST, "IDS", NULL, "token ids, comma separated: a gpt goes on from them, a bert classifies them", 0, 0},
    {"batch", 'b', SN_OPT_INT, "N", "64", "images at a time", 1, 1e7},
    {"val-fraction", 0, SN_OPT_NUMBER, "X", "0.1", "share of folder:DIR that is its test part when it has no val", 0, 0.99},
    {"seed", 0, SN_OPT_INT, "N", "0", "of that split, and of synthetic", 0, 9e15},
    {"samples", 0, SN_OPT_INT, "N", "1024", "images of synthetic", 1, 1e9},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option output_options[] = {
    {"top-k", 'k', SN_OPT_INT, "N", "5", "labels to tell, the likeliest first", 1, 1000},
    {"max-tokens", 0, SN_OPT_INT, "N", "20", "tokens to generate behind a prompt, the likeliest each time", 1, 1e6},
    {"stop-token", 0, SN_OPT_INT, "N", NULL, "end behind this token, -1: behind none; default: eos_token_id of config.json", -1, 2147483647},
    {"json", 0, SN_OPT_FLAG, NULL, NULL, "one JSON object; with --data a prediction for each image", 0, 0},
    {"output", 'o', SN_OPT_TEXT, "FILE", NULL, "write there instead of standard output", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"Model", model_options}, {"Input", input_options}, {"Output", output_options}, {"Engine", sn_options_engine}, {NULL, NULL}};

static const sn_tool tool = {"sinter-predict", "tells what a model makes of images, data sets and prompts", "[IMAGE…]", 0, -1, groups,
                             "Images are JPEG or PNG. Each is a line `IMAGE: label (probability), …`, of the labels that config.json names;\n"
                             "each prompt of a gpt a line of token ids.\n"
                             "Examples: sinter-predict --model=run cat.jpg dog.png; sinter-predict --model=run --data=digits:tests/data/digits;\n"
                             "sinter-predict --model=tests/data/gpt_tiny --prompt=5,17,3 --max-tokens=8"};

static int check_usage(const sn_options *o) {
  int kinds = (sn_opt_operands(o) > 0) + sn_opt_given(o, "data") + (sn_opt_count(o, "prompt") > 0);
  if (!sn_opt_given(o, "model")) return sn_usage_error(&tool, "--model is missing: the folder of the model, such as the --checkpoint of a sinter-train");
  if (kinds == 0) return sn_usage_error(&tool, "what to look at is missing: images, --data or --prompt");
  if (kinds > 1) return sn_usage_error(&tool, "images, --data and --prompt exclude each other");
  return SN_EXIT_OK;
}

/* ---- the model ------------------------------------------------------------------------------------------------------------ */

/* DIR/name; freed by sn_free. */
static sn_status path_of(predictor *p, const char *name, char **out) {
  sn_str s = {0};
  sn_str_printf(&s, "%s/%s", p->dir, name);
  *out = s.failed ? NULL : s.data;
  if (*out) return SN_OK;
  sn_str_finish(&s);
  return sn_out_of_memory(p->d, strlen(p->dir));
}

sn_status predict_model_create(predictor *p, int64_t length, sn_model **out) {
  sn_model_options mo;
  sn_model_options_init(&mo);
  mo.layout = sn_opt_choice(p->o, "layout") == 2 ? SN_NHWC : SN_NCHW;
  mo.length = length;
  return sn_model_create(p->d, NULL, p->config, &mo, out);
}

/* Said before anything is read that takes time. */
static sn_status check_input(predictor *p) {
  const sn_model_info *i = sn_model_get_info(p->model);
  bool prompts = sn_opt_count(p->o, "prompt") > 0;
  sn_status s = SN_OK;
  if (i->channels && prompts) {
    s = sn_error(p->d, (sn_loc){p->config, 0, 0}, SN_ERR_MISMATCH, "a %s looks at images; --prompt is for models of tokens", i->type);
    sn_hint(p->d, "name image files, or a data set by --data");
  } else if (!i->channels && !prompts) {
    s = sn_error(p->d, (sn_loc){p->config, 0, 0}, SN_ERR_MISMATCH, "a %s reads tokens, not images", i->type);
    sn_hint(p->d, "give token ids by --prompt");
  }
  return s;
}

static sn_status read_weights(predictor *p) {
  static const char *const ignore[] = {"vit.pooler.", NULL}; /* a part that a classifier does not use */
  bool vit = strcmp(sn_model_get_info(p->model)->type, "vit") == 0;
  sn_bundle *file = NULL;
  char *path = NULL;
  SN_TRY(sn_weights_read(p->d, p->dir, &file, &path));
  sn_status s = sn_params_load(p->d, p->tree, path, file, vit ? ignore : NULL, &p->weights);
  sn_bundle_destroy(file);
  sn_free(path);
  return s;
}

/* Without the file: what sinter-train does to images when nobody says otherwise. */
static sn_status read_transform(predictor *p) {
  const sn_model_info *i = sn_model_get_info(p->model);
  char *path;
  if (!i->channels) return SN_OK;
  sn_image_transform_init(&p->transform, i->height, i->width);
  SN_TRY(path_of(p, "preprocessor_config.json", &path));
  sn_status s = sn_file_exists(path) ? sn_image_transform_read(p->d, path, &p->transform) : SN_OK;
  sn_free(path);
  return s;
}

static sn_status begin_json(predictor *p) {
  if (!sn_opt_flag(p->o, "json")) return SN_OK;
  p->json = cJSON_CreateObject();
  bool ok = p->json && cJSON_AddStringToObject(p->json, "model", sn_model_get_info(p->model)->type) && cJSON_AddStringToObject(p->json, "engine", p->engine->name);
  p->entries = ok ? cJSON_AddArrayToObject(p->json, "predictions") : NULL;
  return p->entries ? SN_OK : sn_out_of_memory(p->d, sizeof(cJSON));
}

static sn_status set_up(predictor *p) {
  p->dir = sn_opt_text(p->o, "model");
  SN_TRY(path_of(p, "config.json", &p->config));
  SN_TRY(predict_model_create(p, 0, &p->model));
  SN_TRY(check_input(p));
  SN_TRY(sn_model_declare(p->d, sn_model_get_spec(p->model), &p->tree));
  SN_TRY(read_weights(p));
  SN_TRY(read_transform(p));
  SN_TRY(sn_engine_from_options(p->d, p->o, "fused", &p->engine, &p->pool));
  return begin_json(p);
}

/* ---- what is said ---------------------------------------------------------------------------------------------------------- */

static sn_status put(predictor *p) {
  const char *path = sn_opt_text(p->o, "output");
  if (p->json) {
    char *text = cJSON_Print(p->json);
    if (text) sn_str_printf(&p->text, "%s\n", text);
    cJSON_free(text);
    if (!text) return sn_out_of_memory(p->d, sizeof(cJSON));
  }
  if (p->text.failed) return sn_out_of_memory(p->d, p->text.n);
  if (path && strcmp(path, "-") != 0) return sn_file_write(p->d, path, p->text.n ? p->text.data : "", p->text.n);
  fwrite(p->text.data ? p->text.data : "", 1, p->text.n, stdout);
  return SN_OK;
}

/* Images that could be read are told of even when others could not; any other failure leaves nothing worth telling. */
static sn_status predict(predictor *p) {
  SN_TRY(set_up(p));
  sn_status s = SN_OK;
  if (sn_opt_operands(p->o)) s = predict_images(p);
  else if (sn_opt_given(p->o, "data")) SN_TRY(predict_data(p));
  else SN_TRY(predict_prompts(p));
  sn_status written = put(p);
  return s == SN_OK ? written : s;
}

static void finish(predictor *p) {
  cJSON_Delete(p->json);
  sn_str_finish(&p->text);
  sn_bundle_destroy(p->weights);
  sn_params_destroy(p->tree);
  sn_model_destroy(p->model);
  sn_free(p->config);
  sn_pool_destroy(p->pool);
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  predictor p = {.tool = &tool};
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  code = check_usage(o);
  if (code == SN_EXIT_OK) {
    p.o = o;
    sn_status s = sn_diag_create(&p.d);
    if (s == SN_OK) s = predict(&p);
    code = sn_tool_report(&tool, p.d, s);
    finish(&p);
    sn_diag_destroy(p.d);
  }
  sn_options_destroy(o);
  return fflush(stdout) == 0 && !ferror(stdout) ? code : SN_EXIT_BAD;
}
