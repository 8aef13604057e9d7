/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sizes of a product's tiles and blocks, from the shape, the caches and the cores. None of them changes a bit of the result: sums run over k in order. */
#include "lower_convolution.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

typedef struct machine {
  int64_t l2, l3, cores;
} machine;

static machine machine_of(const sn_target *t) {
  return (machine){t && t->l2_bytes ? t->l2_bytes : 512 << 10, t && t->l3_bytes ? t->l3_bytes : 8 << 20, t && t->cores > 0 ? t->cores : 2};
}

static int64_t bytes_of(const product *p) { return (int64_t)sn_type_bytes(product_packed(p)); } /* of an element where it is multiplied */

/* Rows of a tile, `most` or fewer: those with which the tiles of m rows take fewest vector steps a term, of which the columns' loads take about two. The last tile is full,
 * so that few rows that are no multiple (64 = 5 * 12 + 4) are better cut evenly (6 * 11). */
static int64_t fewest_steps(int64_t m, int64_t most, int64_t vectors) {
  int64_t best = most;
  for (int64_t mr = most; mr >= 4; mr--) {
    if (ceil_div(m, mr) * (mr * vectors + 2) < ceil_div(m, best) * (best * vectors + 2)) best = mr;
  }
  return best;
}

static void choose_micro_tile(const lowering *L, product *p) {
  const sn_target *t = L->target;
  int registers = t && t->n_vector_registers ? t->n_vector_registers : 16;
  int64_t lanes = lower_lanes(L, p->type);
  p->nr = p->n <= lanes ? lanes : 2 * lanes;
  int64_t vectors = p->nr / lanes;
  p->mr = fewest_steps(p->m, registers >= 32 ? (vectors == 1 ? 24 : 12) : t && t->fma ? 6 : 4, vectors);
  p->n_tiles = ceil_div(p->m, p->mr);
  p->n_panels = ceil_div(p->n, p->nr);
}

/* What is larger is not in L3 any more when it is read again. */
static bool rhs_is_large(const product *p, const machine *m) { return p->batch * p->n * p->k * bytes_of(p) > m->l3 / 3; }

/* Windows are gathered by the items that multiply them: all of them at once would be an array many times the image. */
static bool items_pack_rhs(const product *p, const machine *m) { return (p->conv && p->conv->side == 1) || rhs_is_large(p, m); }

/* So many terms that eight tiles of lhs fill two fifths of L2: panels of rhs then come from L2 as well, which every processor that fetches ahead hides. Sums pass through
 * memory once a block, so few blocks are good; equal ones are better than a short last one. Items that pack rhs themselves have larger blocks and fewer terms; so do those whose
 * rows are windows on the same pixels (the gradient of a kernel), that all of them may read a pixel while it is near. */
static bool gathers_columns(const product *p) { return p->conv && p->conv->side == 0 && !p->conv->along_terms; }

static void choose_terms(product *p, const machine *m) {
  enum { MOST_TERMS = 1024, MOST_OWN_TERMS = 400, LEAST_TERMS = 256, TILES = 8, MULTIPLE = 16 };
  int64_t most = (p->pairs ? 2 : 1) * (rhs_is_large(p, m) && !(p->conv && p->conv->side) ? MOST_OWN_TERMS : MOST_TERMS);
  p->kc = max64(64, min64(most, m->l2 * 2 / 5 / (TILES * p->mr * bytes_of(p))));
  int64_t all_rows = m->l2 * 2 / 5 / (ceil_div(p->m, m->cores) * bytes_of(p));
  if (gathers_columns(p) && all_rows >= LEAST_TERMS) p->kc = min64(p->kc, all_rows);
  p->k_blocks = ceil_div(p->k, p->kc);
  p->kc = ceil_div(ceil_div(p->k, p->k_blocks), MULTIPLE) * MULTIPLE;
  p->k_blocks = ceil_div(p->k, p->kc);
}

/* What the slowest core does for each term, in multiply-adds of a vector: those of its items, and lhs and rhs brought near once an item. */
static double time_of(const product *p, const machine *m, int64_t rows, int64_t columns, bool own) {
  double lhs = own ? 1 : 0.5, rhs = own ? 1 : 0.25, late = own ? 0.02 : 0.05; /* of an element; part of an item that a core is late */
  double items = (double)(p->batch * rows * columns);
  bool even = items > (double)m->cores; /* larger and smaller items even out */
  double mc = (double)p->mr * (even ? (double)p->n_tiles / (double)rows : (double)ceil_div(p->n_tiles, rows));
  double nc = (double)p->nr * (even ? (double)p->n_panels / (double)columns : (double)ceil_div(p->n_panels, columns));
  double item = mc * nc * 2 / (double)p->nr + lhs * mc + rhs * nc;
  return ((double)ceil_div(p->batch * rows * columns, m->cores) + late) * item;
}

/* Rows and columns in at least so many blocks: the best numbers near them. */
static void choose_blocks(product *p, const machine *m, int64_t least_rows, int64_t least_columns, bool own) {
  double best = 0;
  for (int64_t r = least_rows; r <= min64(p->n_tiles, least_rows + 8 * m->cores); r++) {
    for (int64_t c = least_columns; c <= min64(p->n_panels, least_columns + 8 * m->cores); c++) {
      double t = time_of(p, m, r, c, own);
      if (best > 0 && t >= best) continue;
      best = t;
      p->m_blocks = r;
      p->n_blocks = c;
    }
  }
  p->tiles = ceil_div(p->n_tiles, p->m_blocks);
  p->panels = ceil_div(p->n_panels, p->n_blocks);
}

/* The rows of an item stay in L2 while the panels of rhs pass by. Where items pack rhs themselves, each takes many rows and columns, since it reads both from far away. */
static void choose_items(product *p, const machine *m) {
  enum { MOST_COLUMNS = 1024 }; /* of which sums wait for further terms */
  bool own = items_pack_rhs(p, m);
  int64_t most_tiles = max64(1, m->l2 * (own ? 3 : 2) / 5 / (p->mr * p->kc * bytes_of(p))), most_panels = p->n_panels;
  if (p->k_blocks > 1) most_panels = max64(1, MOST_COLUMNS / p->nr);
  if (p->conv && own) most_panels = min64(most_panels, max64(1, m->l2 / 2 / (p->kc * p->nr * bytes_of(p)))); /* a strip stays in L2 */
  choose_blocks(p, m, ceil_div(p->n_tiles, min64(most_tiles, p->n_tiles)), ceil_div(p->n_panels, min64(most_panels, p->n_panels)), own);
  p->shared_rhs = !own && p->m_blocks > 1 && !p->rhs_in_place;
}

/* Rows this far apart fall into so few sets of L1 that the rows of a tile push each other out. */
static bool rows_collide(const product *p, int64_t row_bytes) {
  enum { WAY = 4096, WAYS = 8 };
  int64_t a = WAY, b = row_bytes < 0 ? -row_bytes : row_bytes;
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return p->mr * a / WAY > WAYS / 2;
}

/* The next length of a packed row, or of a column of packed rows, whose multiples fall into different sets. */
static int64_t pitch_of(int64_t n, int64_t each_bytes) {
  enum { LINE = 64 };
  for (int64_t pitch = n; pitch < n + LINE; pitch++) {
    if (pitch * each_bytes % LINE == 0 && pitch * each_bytes / LINE % 2) return pitch;
  }
  return n;
}

/* Of L1, whose other half the other operand passes through. */
enum { MOST_LINES = 256, MOST_RHS_BYTES = 16 << 10 };

static bool lies_as(const lowering *L, int buffer, sn_type t) { return L->k->buffers[buffer].type == t; }

static void choose_lhs(lowering *L, product *p) {
  int64_t step = p->pairs ? 2 : 1; /* terms of a word */
  bool plain = product_find_operand(L, p, 0, &p->lhs_buffer, &p->lhs_row, &p->lhs_term) && p->m >= p->mr && lies_as(L, p->lhs_buffer, product_packed(p));
  bool rows = p->lhs_term == 1 && p->lhs_row % step == 0 && p->k % step == 0 && !rows_collide(p, p->lhs_row * bytes_of(p));
  bool columns = !p->conv && !p->pairs && p->lhs_row == 1 && p->lhs_term > 1 && p->n_panels == 1 && p->k <= MOST_LINES; /* read once: packing them would read and write them first */
  if (plain && (rows || columns)) p->lhs = PRODUCT_IN_PLACE;
  else p->lhs = p->lhs_term == 1 ? PRODUCT_ROWS : PRODUCT_COLUMNS;
  if (p->lhs == PRODUCT_ROWS) p->lhs_pitch = pitch_of(p->kc, bytes_of(p));
  else p->lhs_pitch = pitch_of(p->kc / step, p->mr * bytes_of(p) * step);
}

static void choose_rhs(lowering *L, product *p) {
  enum { NEAR = 1024 }; /* rows so far apart, in bytes, are read where they lie: few pages, all sets of L1 */
  bool plain = product_find_operand(L, p, 1, &p->rhs_buffer, &p->rhs_column, &p->rhs_term) && !p->pairs && lies_as(L, p->rhs_buffer, p->type), whole = p->n % p->nr == 0;
  p->rhs_along_k = p->rhs_term == 1 && p->rhs_column != 1;
  p->rhs_plain = plain && p->rhs_along_k && whole;
  bool masks = L->target && L->target->vector_bytes >= 32; /* else a masked load is a branch a lane */
  bool small = p->k_blocks == 1 && p->k * p->n * bytes_of(p) <= MOST_RHS_BYTES && (masks || whole);
  p->rhs_in_place = plain && p->rhs_column == 1 && p->rhs_term > 0 && (p->conv ? whole && p->rhs_term * bytes_of(p) <= NEAR : small);
}

/* The operand that is gathered: rows of terms, or strips of neighbouring positions. */
static void choose_gathered(product *p) {
  if (p->conv->side == 1) {
    p->rhs_pitch = pitch_of(p->panels * p->nr, bytes_of(p));
    return;
  }
  p->lhs = p->conv->along_terms ? PRODUCT_ROWS : PRODUCT_STRIP;
  p->lhs_pitch = pitch_of(p->conv->along_terms ? p->kc : p->tiles * p->mr, bytes_of(p));
}

void product_choose_tile(lowering *L, product *p) {
  machine m = machine_of(L->target);
  choose_micro_tile(L, p);
  choose_terms(p, &m);
  if (!p->empty && (!p->conv || p->conv->side == 0)) choose_rhs(L, p);
  choose_items(p, &m);
  if (p->empty) { /* nothing is read */
    p->lhs = PRODUCT_IN_PLACE;
    p->rhs_in_place = true;
    p->shared_rhs = false;
    return;
  }
  if (p->conv) choose_gathered(p);
  if (!p->conv || p->conv->side == 1) choose_lhs(L, p);
  p->far = !p->conv && (!p->shared_rhs || p->lhs == PRODUCT_COLUMNS) && p->batch * (p->m + p->n) * p->k * bytes_of(p) > m.l3 / 2;
}
