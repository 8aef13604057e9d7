/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The option table as help, manual page and shell completions. */
#include <string.h>

#include "options_internal.h"

/* `-o, --output=FILE` */
static void option_form(const sn_option *o, sn_str *to) {
  if (o->letter) sn_str_printf(to, "-%c, ", o->letter);
  sn_str_printf(to, "--%s", o->name);
  if (!o->argument) return;
  sn_str_printf(to, o->kind == SN_OPT_MAYBE ? "[=%s]" : "=%s", o->argument);
}

static void option_meaning(const sn_option *o, sn_str *to) {
  sn_str_add(to, o->help);
  if (o->kind == SN_OPT_LIST) sn_str_add(to, " (repeatable)");
  if (o->dflt && o->kind != SN_OPT_FLAG) sn_str_printf(to, " [default: %s]", o->dflt);
}

/* Breaks `text` at blanks so that lines end before column 100; continuation lines start at `indent`. */
static void print_wrapped(FILE *to, const char *text, int column, int indent) {
  while (*text) {
    size_t n = strcspn(text, " ");
    if (column > indent && column + 1 + (int)n > 100) {
      fprintf(to, "\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      fputc(' ', to);
      column++;
    }
    fwrite(text, 1, n, to);
    column += (int)n;
    text += n;
    while (*text == ' ') text++;
  }
  fputc('\n', to);
}

static void help_row(const sn_option *o, FILE *to) {
  enum { MEANING = 34 };
  sn_str form = {0}, meaning = {0};
  option_form(o, &form);
  option_meaning(o, &meaning);
  if (!form.failed && !meaning.failed) {
    fprintf(to, "  %-*s", MEANING - 2, form.data);
    if (form.n > MEANING - 4) fprintf(to, "\n%*s", MEANING, "");
    print_wrapped(to, meaning.data, MEANING, MEANING);
  }
  sn_str_finish(&form);
  sn_str_finish(&meaning);
}

void sn_options_print_help(const sn_tool *tool, FILE *to) {
  fprintf(to, "usage: %s [options]%s%s\n%s\n", tool->name, tool->operands ? " " : "", tool->operands ? tool->operands : "", tool->what);
  for (const sn_option_group *g = tool->groups; g->heading; g++) {
    fprintf(to, "\n%s:\n", g->heading);
    for (const sn_option *o = g->options; o->name; o++) help_row(o, to);
  }
  fprintf(to, "\nGeneral:\n");
  for (const sn_option *o = sn_options_builtin; o->name; o++) help_row(o, to);
  if (tool->notes) fprintf(to, "\n%s\n", tool->notes);
  fprintf(to, "\nExit status: 0 success, 1 bad input or a failed check, 2 wrong usage.\n");
}

/* ---- manual page --------------------------------------------------------------------------------------------------- */

static void roff_text(FILE *to, const char *s) {
  if (*s == '.' || *s == '\'') fputs("\\&", to);
  for (; *s; s++) {
    if (*s == '\\') fputs("\\e", to);
    else if (*s == '-') fputs("\\-", to);
    else fputc(*s, to);
  }
  fputc('\n', to);
}

static void man_row(const sn_option *o, FILE *to) {
  sn_str form = {0}, meaning = {0};
  option_form(o, &form);
  option_meaning(o, &meaning);
  if (!form.failed && !meaning.failed) {
    fputs(".TP\n.B ", to);
    roff_text(to, form.data);
    roff_text(to, meaning.data);
  }
  sn_str_finish(&form);
  sn_str_finish(&meaning);
}

void sn_options_print_man(const sn_tool *tool, FILE *to) {
  fprintf(to, ".TH \"%s\" 1 \"\" \"Sinter " SINTER_VERSION "\"\n.SH NAME\n", tool->name);
  fprintf(to, "%s \\- %s\n.SH SYNOPSIS\n.B %s\n[options] %s\n", tool->name, tool->what, tool->name, tool->operands ? tool->operands : "");
  for (const sn_option_group *g = tool->groups; g->heading; g++) {
    fprintf(to, ".SH %s\n", g->heading);
    for (const sn_option *o = g->options; o->name; o++) man_row(o, to);
  }
  fprintf(to, ".SH GENERAL\n");
  for (const sn_option *o = sn_options_builtin; o->name; o++) man_row(o, to);
  if (tool->notes) fprintf(to, ".SH NOTES\n.nf\n%s\n.fi\n", tool->notes);
  fprintf(to, ".SH EXIT STATUS\n0 success, 1 bad input or a failed check, 2 wrong usage.\n");
}

/* ---- completions ----------------------------------------------------------------------------------------------------- */

static void words_of_choices(FILE *to, const char *choices) {
  for (const char *c = choices; *c; c++) fputc(*c == '|' ? ' ' : *c, to);
}

static bool has_choices(const sn_option *o) { return o->kind == SN_OPT_CHOICE || o->kind == SN_OPT_CHOICES; }

/* sinter-opt -> sinter_opt: a name that shells take for a function. */
static void function_name(const sn_tool *tool, FILE *to) {
  for (const char *c = tool->name; *c; c++) fputc(*c == '-' ? '_' : *c, to);
}

static void bash_completion(const sn_tool *tool, FILE *to) {
  const sn_option *o;
  fputc('_', to);
  function_name(tool, to);
  fputs("() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n  COMPREPLY=()\n"
        "  [[ $cur == = ]] && cur=\n  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n  case $prev in\n", to);
  for (size_t i = 0; (o = sn_options_row(tool, i)); i++) {
    if (!has_choices(o)) continue;
    fprintf(to, "    --%s) COMPREPLY=($(compgen -W \"", o->name);
    words_of_choices(to, o->argument);
    fputs("\" -- \"$cur\")); return ;;\n", to);
  }
  fputs("  esac\n  [[ $cur == -* ]] && COMPREPLY=($(compgen -W \"", to);
  for (size_t i = 0; (o = sn_options_row(tool, i)); i++) fprintf(to, "%s--%s", i ? " " : "", o->name);
  fputs("\" -- \"$cur\")) || COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -o filenames -F _", to);
  function_name(tool, to);
  fprintf(to, " %s\n", tool->name);
}

/* Shell text between single quotes. */
static void quoted(FILE *to, const char *s, const char *escape) {
  for (; *s; s++) {
    if (*s == '\'') fputs("'\\''", to);
    else {
      if (strchr(escape, *s)) fputc('\\', to);
      fputc(*s, to);
    }
  }
}

static void zsh_completion(const sn_tool *tool, FILE *to) {
  const sn_option *o;
  fprintf(to, "#compdef %s\n_arguments \\\n", tool->name);
  for (size_t i = 0; (o = sn_options_row(tool, i)); i++) {
    fprintf(to, "  '%s--%s%s[", o->kind == SN_OPT_LIST ? "*" : "", o->name, o->argument ? "=" : "");
    quoted(to, o->help, "[]:\\");
    fputc(']', to);
    if (has_choices(o)) {
      fputs(":choice:(", to);
      words_of_choices(to, o->argument);
      fputc(')', to);
    } else if (o->argument) {
      fputs(":argument:_files", to);
    }
    fputs("' \\\n", to);
  }
  fputs("  '*:file:_files'\n", to);
}

static void fish_completion(const sn_tool *tool, FILE *to) {
  const sn_option *o;
  for (size_t i = 0; (o = sn_options_row(tool, i)); i++) {
    fprintf(to, "complete -c %s -l %s", tool->name, o->name);
    if (o->letter) fprintf(to, " -s %c", o->letter);
    if (o->argument) fputs(" -r", to);
    if (has_choices(o)) {
      fputs(" -f -a '", to);
      words_of_choices(to, o->argument);
      fputc('\'', to);
    }
    fputs(" -d '", to);
    for (const char *c = o->help; *c; c++) {
      if (*c == '\'') fputc('\\', to);
      fputc(*c, to);
    }
    fputs("'\n", to);
  }
}

bool sn_options_print_completion(const sn_tool *tool, const char *shell, FILE *to) {
  static const struct { const char *name; void (*print)(const sn_tool *, FILE *); } shells[] = {
      {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    if (strcmp(shells[i].name, shell) == 0) return shells[i].print(tool, to), true;
  return false;
}
