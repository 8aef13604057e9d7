/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The module's frame: header, debug tables, computations; and the options. */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

void sn_print_options_init(sn_print_options *o) {
  *o = (sn_print_options){.struct_size = sizeof *o, .percent = true, .program_shape = true, .result_layout = true, .metadata = true,
                          .backend_config = true, .debug_tables = true, .index_comments = true, .large_constants = true, .async_sugar = true,
                          .default_layouts = true};
}

void sn_print_options_init_short(sn_print_options *o) {
  *o = (sn_print_options){.struct_size = sizeof *o, .result_layout = true, .backend_config = true, .large_constants = true, .async_sugar = true};
}

static void printer_init(sn_tx_printer *w, sn_str *to, const sn_print_options *o) {
  w->to = to;
  sn_print_options_init(&w->o);
  if (o != NULL) memcpy(&w->o, o, o->struct_size < sizeof w->o ? o->struct_size : sizeof w->o);
}

/* ---- header ---------------------------------------------------------------------------------------------------------------- */

static void print_entry_layout(sn_tx_printer *w, const sn_module *m) {
  const sn_computation *e = m->entry;
  int64_t n = m->entry_result != NULL ? m->n_entry_params : e->n_params;
  sn_str_add(w->to, ", entry_computation_layout={(");
  for (int64_t i = 0; i < n; i++) {
    if (i != 0) sn_str_add(w->to, ", ");
    if (w->o.index_comments && i != 0 && i % 5 == 0) sn_tx_print_index(w->to, (uint32_t)i);
    sn_tx_print_shape(w->to, m->entry_result != NULL ? m->entry_params[i] : e->params[i]->shape, true, true, w->o.index_comments);
  }
  sn_str_add(w->to, ")->");
  sn_tx_print_shape(w->to, m->entry_result != NULL ? m->entry_result : e->root->shape, true, true, w->o.index_comments);
  sn_str_char(w->to, '}');
}

static void print_donors(sn_str *to, int64_t n, const sn_alias *v) {
  sn_str_add(to, ", buffer_donor={ ");
  for (int64_t i = 0; i < n; i++) {
    sn_str_add(to, i != 0 ? ", (" : "(");
    sn_str_i64(to, v[i].operand);
    sn_tx_print_ints(to, v[i].operand_index, ", {", ",", "})");
  }
  sn_str_add(to, " }");
}

static void print_bools(sn_str *to, const char *key, sn_ints v) {
  if (v.n == 0) return;
  sn_str_add(to, key);
  for (int64_t i = 0; i < v.n; i++) {
    if (i != 0) sn_str_char(to, ',');
    sn_str_add(to, v.v[i] != 0 ? "true" : "false");
  }
  sn_str_char(to, '}');
}

static void print_count(sn_str *to, const char *key, int64_t v) {
  if (v == 1) return;
  sn_str_add(to, key);
  sn_str_i64(to, v);
}

static void print_header(sn_tx_printer *w, const sn_module *m) {
  sn_str_add(w->to, "HloModule ");
  sn_str_add(w->to, m->name);
  if (m->is_scheduled) sn_str_add(w->to, ", is_scheduled=true");
  if (m->n_aliases != 0) {
    sn_str_add(w->to, ", input_output_alias=");
    sn_tx_print_aliases(w->to, m->n_aliases, m->aliases, true);
  }
  if (m->n_donors != 0) print_donors(w->to, m->n_donors, m->donors);
  if (m->alias_passthrough_params) sn_str_add(w->to, ", alias_passthrough_params=true");
  if (m->entry != NULL && m->entry->root != NULL) print_entry_layout(w, m);
  print_bools(w->to, ", allow_spmd_sharding_propagation_to_parameters={", m->spmd_to_parameters);
  print_bools(w->to, ", allow_spmd_sharding_propagation_to_output={", m->spmd_to_output);
  print_count(w->to, ", replica_count=", m->replica_count);
  print_count(w->to, ", num_partitions=", m->num_partitions);
  if (m->n_frontend != 0) {
    sn_str_add(w->to, ", frontend_attributes=");
    sn_tx_print_pairs(w->to, m->n_frontend, m->frontend);
  }
  for (const sn_pair *e = m->extras; e != NULL && e->key != NULL; e++) {
    sn_str_add(w->to, ", ");
    sn_str_add(w->to, e->key);
    sn_str_char(w->to, '=');
    sn_str_add(w->to, e->value);
  }
  sn_str_add(w->to, "\n\n");
}

/* ---- debug tables ------------------------------------------------------------------------------------------------------------ */

static void print_strings(sn_str *to, const char *heading, int64_t n, const char *const *v) {
  if (n == 0) return;
  sn_str_add(to, heading);
  for (int64_t i = 0; i < n; i++) {
    sn_str_i64(to, i + 1);
    sn_str_char(to, ' ');
    sn_tx_print_quoted(to, v[i]);
    sn_str_char(to, '\n');
  }
  sn_str_char(to, '\n');
}

static void print_locations(sn_str *to, int64_t n, const sn_file_location *v) {
  if (n == 0) return;
  sn_str_add(to, "FileLocations\n");
  for (int64_t i = 0; i < n; i++) {
    sn_str_printf(to, "%" PRId64 " {file_name_id=%d function_name_id=%d line=%d end_line=%d column=%d end_column=%d}\n", i + 1, v[i].file, v[i].function,
                  v[i].line, v[i].end_line, v[i].column, v[i].end_column);
  }
  sn_str_char(to, '\n');
}

static void print_frames(sn_str *to, int64_t n, const sn_stack_frame *v) {
  if (n == 0) return;
  sn_str_add(to, "StackFrames\n");
  for (int64_t i = 0; i < n; i++) sn_str_printf(to, "%" PRId64 " {file_location_id=%d parent_frame_id=%d}\n", i + 1, v[i].location, v[i].parent);
  sn_str_char(to, '\n');
}

void sn_tx_print_debug_tables(sn_str *to, const sn_debug_tables *t) {
  if (t->n_files == 0 && t->n_functions == 0 && t->n_locations == 0 && t->n_frames == 0) return;
  print_strings(to, "FileNames\n", t->n_files, t->files);
  print_strings(to, "FunctionNames\n", t->n_functions, t->functions);
  print_locations(to, t->n_locations, t->locations);
  print_frames(to, t->n_frames, t->frames);
  sn_str_char(to, '\n');
}

/* ---- computations --------------------------------------------------------------------------------------------------------------- */

static void print_program_shape(sn_tx_printer *w, const sn_computation *c) {
  sn_str_add_n(w->to, " (", 2);
  for (uint32_t k = 0; k < c->n_params; k++) {
    if (k != 0) sn_str_add_n(w->to, ", ", 2);
    sn_str_add(w->to, c->params[k]->name);
    sn_str_add_n(w->to, ": ", 2);
    sn_tx_print_shape(w->to, c->params[k]->shape, false, false, w->o.index_comments);
  }
  sn_str_add_n(w->to, ") -> ", 5);
  if (c->root != NULL) sn_tx_print_shape(w->to, c->root->shape, false, false, w->o.index_comments);
}

static void print_computation(sn_tx_printer *w, const sn_computation *c) {
  if (c->module->entry == c) sn_str_add_n(w->to, "ENTRY ", 6);
  if (w->o.percent) sn_str_char(w->to, '%');
  sn_str_add(w->to, c->name);
  if (w->o.program_shape) print_program_shape(w, c);
  sn_str_add_n(w->to, " {\n", 3);
  SN_FOR_INSTRS(i, c) {
    sn_str_add_n(w->to, "  ", 2);
    sn_tx_print_instr(w, i);
    sn_str_char(w->to, '\n');
  }
  sn_str_char(w->to, '}');
  if (c->execution_thread != NULL) {
    sn_str_add(w->to, ", execution_thread=");
    sn_tx_print_quoted(w->to, c->execution_thread);
  }
}

/* Computations that only stand for `<op>-start` are not printed. marks: by computation id; NULL: print all, without sugar. */
static uint8_t *mark_sugared(const sn_module *m) {
  uint8_t *marks = sn_alloc_zero(m->n_comp_ids, 1);
  if (marks == NULL) return NULL;
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      if (i->n_called != 0 && i->op == SN_OP_ASYNC_START && sn_tx_sugar(i) != NULL) marks[i->called[0]->id] = 1;
    }
  }
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      for (uint16_t k = 0; k < i->n_called; k++) {
        if (marks[i->called[k]->id] != 0 && (i->op != SN_OP_ASYNC_START || sn_tx_sugar(i) == NULL)) marks[i->called[k]->id] = 0;
      }
    }
  }
  return marks;
}

void sn_hlo_print(sn_str *to, const sn_module *m, const sn_print_options *o) {
  sn_tx_printer w;
  printer_init(&w, to, o);
  print_header(&w, m);
  if (w.o.debug_tables) sn_tx_print_debug_tables(to, &m->debug);
  uint8_t *marks = w.o.async_sugar ? mark_sugared(m) : NULL;
  if (w.o.async_sugar && marks == NULL) to->failed = true;
  SN_FOR_COMPUTATIONS(c, m) {
    if (marks != NULL && marks[c->id] != 0 && m->entry != c) continue;
    print_computation(&w, c);
    sn_str_add_n(to, "\n\n", 2);
  }
  sn_free(marks);
}

void sn_hlo_print_computation(sn_str *to, const sn_computation *c, const sn_print_options *o) {
  sn_tx_printer w;
  printer_init(&w, to, o);
  print_computation(&w, c);
  sn_str_char(to, '\n');
}
