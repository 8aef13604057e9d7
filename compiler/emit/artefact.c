/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program as an object or a shared library: its image as read-only data, and a header that loads it. */
#include "sinter/emit.h"

#include <string.h>

enum { NAME_BYTES = 200, PATH_BYTES = 4096 };

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *file_of(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

/* libstep-1.so: step_1. */
static void name_of(const char *path, sn_artefact kind, char *to) {
  const char *file = file_of(path);
  size_t n = 0;
  if (kind == SN_ARTEFACT_SHARED && strncmp(file, "lib", 3) == 0 && file[3]) file += 3;
  if (is_digit(*file)) to[n++] = '_';
  for (const char *c = file; *c && *c != '.' && n + 1 < NAME_BYTES; c++) to[n++] = is_letter(*c) || is_digit(*c) ? *c : '_';
  if (n == 0) to[n++] = '_';
  to[n] = '\0';
}

static void print_leaf(sn_str *to, const char *what, uint32_t i, const sn_program_leaf *l) {
  sn_str_printf(to, " *   %s %u: ", what, i);
  sn_shape_print(to, l->shape, 0);
  if (l->donated_to >= 0) sn_str_printf(to, ", becomes result %lld", (long long)l->donated_to);
  if (l->alias_of >= 0) sn_str_printf(to, ", in the memory of argument %lld", (long long)l->alias_of);
  sn_str_char(to, '\n');
}

static void print_loader(sn_str *to, const char *name) {
  sn_str_add(to, "#include \"sinter/program.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  sn_str_printf(to, "extern const unsigned char %s_program[];\nextern const uint64_t %s_program_bytes;\n\n", name, name);
  sn_str_printf(to, "/* The program, for sn_context_create; the caller's, for sn_program_release. */\nstatic inline sn_status %s_load(sn_diag *d, sn_program **out) {\n", name);
  sn_str_printf(to, "  return sn_program_read_memory(d, \"%s\", %s_program, (size_t)%s_program_bytes, out);\n}\n\n", name, name, name);
}

static void print_entry(sn_str *to, const sn_alone *alone, const char *name) {
  sn_str_add(to, "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  sn_str_printf(to, "#define %s_WORK_BYTES %lld\n\n", name, (long long)alone->work_bytes);
  sn_str_printf(to, "/* arguments[i], results[i]: memory of the arrays above, row-major unless a layout says otherwise, 64-byte aligned; work: %s_WORK_BYTES, 64-byte aligned, of one\n", name);
  sn_str_printf(to, " * call at a time. Runs on the calling thread, in the default floating-point environment. Returns 0. */\nint32_t %s_run(void *const *arguments, void *const *results, void *work);\n\n", name);
}

static void print_header(sn_str *to, const sn_program *p, const sn_alone *alone, const char *name) {
  sn_str_printf(to, "/* Written by sinter-compile: the program %s for %s.\n *\n", sn_program_name(p), sn_program_target(p) ? sn_program_target(p) : "any machine");
  for (uint32_t i = 0; i < sn_program_n_arguments(p); i++) print_leaf(to, "argument", i, sn_program_argument(p, i));
  for (uint32_t i = 0; i < sn_program_n_results(p); i++) print_leaf(to, "result", i, sn_program_result(p, i));
  sn_str_printf(to, " *\n * %s */\n", alone ? "Needs no library." : "Link libsinter-runtime (pkg-config sinter-runtime).");
  sn_str_printf(to, "#ifndef SINTER_PROGRAM_%s_H\n#define SINTER_PROGRAM_%s_H\n\n", name, name);
  if (alone) print_entry(to, alone, name);
  else print_loader(to, name);
  sn_str_add(to, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static sn_status write_header(sn_diag *d, const sn_program *p, const sn_alone *alone, const char *name, const char *path) {
  char header[PATH_BYTES];
  const char *file = file_of(path), *dot = strrchr(file, '.');
  sn_str text = {0};
  int n = (int)(dot && dot != file ? dot - path : (ptrdiff_t)strlen(path));
  if (snprintf(header, sizeof header, "%.*s.h", n, path) >= PATH_BYTES) return sn_error(d, SN_NOWHERE, SN_ERR_IO, "the path of the header is too long");
  print_header(&text, p, alone, name);
  sn_status s = text.failed ? sn_out_of_memory(d, text.n) : sn_file_write(d, header, text.data, text.n);
  sn_str_finish(&text);
  return s;
}

/* The program's image, or its code. */
static void print_file(sn_str *to, const sn_program *p, const sn_alone *alone, const char *soname, const char *name) {
  char image[NAME_BYTES + 32], bytes[NAME_BYTES + 32], run[NAME_BYTES + 32];
  size_t n;
  const void *data = sn_program_image(p, &n);
  uint64_t n_bytes = n;
  snprintf(image, sizeof image, "%s_program", name);
  snprintf(bytes, sizeof bytes, "%s_program_bytes", name);
  snprintf(run, sizeof run, "%s_run", name);
  const sn_elf_section data_sections[] = {{".rodata.size", &n_bytes, sizeof n_bytes, 8, false}, {".rodata.program", data, n, 4096, false}};
  const sn_elf_symbol data_symbols[] = {{bytes, 0, 0, sizeof n_bytes, false}, {image, 1, 0, n, false}};
  sn_elf_section code = {".text", alone ? alone->code : NULL, alone ? (uint64_t)alone->bytes : 0, 4096, true};
  sn_elf_symbol entry = {run, 0, alone ? (uint64_t)alone->entry : 0, 0, true};
  const sn_elf_spec spec = {.soname = soname,
                            .aarch64 = sn_program_target(p) && strcmp(sn_program_target(p), "aarch64") == 0,
                            .n_sections = alone ? 1 : 2,
                            .n_symbols = alone ? 1 : 2,
                            .sections = alone ? &code : data_sections,
                            .symbols = alone ? &entry : data_symbols};
  sn_elf_print(to, &spec);
}

sn_status sn_artefact_write(sn_diag *d, const sn_program *p, const sn_alone *alone, sn_artefact kind, const char *path) {
  char name[NAME_BYTES];
  sn_str file = {0};
  name_of(path, kind, name);
  print_file(&file, p, alone, kind == SN_ARTEFACT_SHARED ? file_of(path) : NULL, name);
  sn_status s = file.failed ? sn_out_of_memory(d, file.n) : sn_file_write(d, path, file.data, file.n);
  sn_str_finish(&file);
  return s == SN_OK ? write_header(d, p, alone, name, path) : s;
}
