/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Functions of one to four registers, lane by lane: all lanes in a loop that the compiler makes vectors of, some lanes one by one. */
#ifndef SINTER_EMU_EXEC_LANES_H
#define SINTER_EMU_EXEC_LANES_H

#include "exec.h"

/* The bodies see operands as x, y, z, v and the instruction as i; R is the result's type. */
#define EMU_LOOP(R, load, expr)                    \
  R *d = EMU_AT(R, i->d);                          \
  if (mask == EMU_FULL) {                          \
    EMU_EACH_LANE                                  \
    for (int l = 0; l < EMU_LANES; l++) {          \
      load;                                        \
      d[l] = (R)(expr);                            \
    }                                              \
  } else {                                         \
    EMU_FOR_LANES(l, mask) {                       \
      load;                                        \
      d[l] = (R)(expr);                            \
    }                                              \
  }

#define EMU_1(name, R, A, expr)                                              \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {           \
    const A *a = EMU_AT(const A, i->s[0]);                                   \
    EMU_LOOP(R, const A x = a[l], expr)                                      \
  }
#define EMU_2(name, R, A, B, expr)                                           \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {           \
    const A *a = EMU_AT(const A, i->s[0]);                                   \
    const B *b = EMU_AT(const B, i->s[1]);                                   \
    EMU_LOOP(R, const A x = a[l]; const B y = b[l], expr)                    \
  }
#define EMU_3(name, R, A, B, C, expr)                                        \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {           \
    const A *a = EMU_AT(const A, i->s[0]);                                   \
    const B *b = EMU_AT(const B, i->s[1]);                                   \
    const C *c = EMU_AT(const C, i->s[2]);                                   \
    EMU_LOOP(R, const A x = a[l]; const B y = b[l]; const C z = c[l], expr)  \
  }
#define EMU_4(name, R, A, B, C, D, expr)                                                        \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {                              \
    const A *a = EMU_AT(const A, i->s[0]);                                                      \
    const B *b = EMU_AT(const B, i->s[1]);                                                      \
    const C *c = EMU_AT(const C, i->s[2]);                                                      \
    const D *e = EMU_AT(const D, i->s[3]);                                                      \
    EMU_LOOP(R, const A x = a[l]; const B y = b[l]; const C z = c[l]; const D v = e[l], expr)   \
  }

#endif
