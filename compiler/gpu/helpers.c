/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device functions that kernels call; a translation unit holds those its text names, and those these name. Each stands before its users. */
#include "emit.h"

#include <string.h>

#define FN "static __device__ __forceinline__ "

#define LOAD_MATRICES(how)                                                                                                                 \
  "  const unsigned at = (unsigned)__cvta_generic_to_shared(row);\n"                                                                       \
  "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];\"\n"                                            \
  "               : \"=r\"(d[0]), \"=r\"(d[1]), \"=r\"(d[2]), \"=r\"(d[3]) : \"r\"(at) : \"memory\");\n"

#define MMA(types)                                                                                                                         \
  "  asm(\"mma.sync.aligned.m16n8" types ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"                        \
  "      : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));\n"

static const struct {
  const char *name, *text;
} helpers[] = {
    {"sn_c64", "struct __align__(8) sn_c64 { float re, im; };\n"},
    {"sn_c128", "struct __align__(16) sn_c128 { double re, im; };\n"},

    /* ---- index arithmetic ---- */
    {"sn_div", "/* Neither may be negative. */\n" FN "int sn_div(int a, int b) { return (int)((unsigned)a / (unsigned)b); }\n" FN
               "long long sn_div(long long a, long long b) { return (long long)((unsigned long long)a / (unsigned long long)b); }\n"},
    {"sn_mod", FN "int sn_mod(int a, int b) { return (int)((unsigned)a % (unsigned)b); }\n" FN
               "long long sn_mod(long long a, long long b) { return (long long)((unsigned long long)a % (unsigned long long)b); }\n"},
    {"sn_floor_mod", "template <class T>\n" FN "T sn_floor_mod(T a, T b) { T r = a % b; return r < 0 ? r + b : r; }\n"},
    {"sn_floor_div", "template <class T>\n" FN "T sn_floor_div(T a, T b) { T q = a / b; return a % b < 0 ? q - 1 : q; }\n"},
    {"sn_min", "template <class T>\n" FN "T sn_min(T a, T b) { return a < b ? a : b; }\n"},
    {"sn_max", "template <class T>\n" FN "T sn_max(T a, T b) { return a > b ? a : b; }\n"},

    /* ---- narrow floats ---- */
    {"sn_from_f16", FN "float sn_from_f16(unsigned short h) { float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return f; }\n"},
    {"sn_to_f16", FN "unsigned short sn_to_f16(float f) { unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; }\n"},
    {"sn_from_bf16", FN "float sn_from_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }\n"},
    {"sn_to_bf16", FN "unsigned short sn_to_bf16(float f) {\n  unsigned u = __float_as_uint(f);\n"
                   "  if ((u & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((u >> 16 & 0x8000u) | 0x7fc0u);\n"
                   "  return (unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n}\n"},
    {"sn_encode",
     "/* A float of at most 8 bits: mantissa bits, bias, width, sign bit, largest finite code, what larger values and NaN become. */\n"
     "template <int M, int B, int W, unsigned S, unsigned MOST, unsigned OVER, unsigned NANC, bool INF, bool NAN_SIGNED, bool MINUS_ZERO, bool NO_NAN>\n" FN
     "unsigned char sn_encode(float v) {\n"
     "  unsigned u = __float_as_uint(v), a = u & 0x7fffffffu, code;\n"
     "  if (S == 0) {\n"
     "    if (u == 0 || u > 0x7f800000u) return (unsigned char)NANC;\n"
     "    if (u < 0x800000u) return u >= 0x600000u;\n"
     "    code = (u + 0x400000u) >> 23;\n"
     "    return (unsigned char)(code > MOST ? OVER : code);\n"
     "  }\n"
     "  unsigned sign = (u & 0x80000000u) >> (32 - W);\n"
     "  if (a < (unsigned)(128 - B) << 23) { /* below the least normal number: the addition rounds */\n"
     "    const float magic = __uint_as_float((unsigned)(127 + 24 - B - M) << 23);\n"
     "    code = __float_as_uint(__uint_as_float(a) + magic) - __float_as_uint(magic);\n"
     "  } else {\n"
     "    unsigned n = a - ((unsigned)(127 - B) << 23);\n"
     "    code = (n + (n >> (23 - M) & 1u) + (1u << (22 - M)) - 1u) >> (23 - M);\n"
     "  }\n"
     "  bool over = code > MOST, nan = a > 0x7f800000u;\n"
     "  if (over) code = OVER;\n"
     "  if (!NAN_SIGNED && over) sign = 0;\n"
     "  if ((!NAN_SIGNED || NO_NAN) && nan) sign = 0;\n"
     "  if (!MINUS_ZERO && code == 0) sign = 0;\n"
     "  return (unsigned char)((nan ? NANC : code) | sign);\n}\n"},
    {"sn_decode",
     "template <int M, int B, int W, unsigned S, unsigned MOST, unsigned OVER, unsigned NANC, bool INF, bool NAN_SIGNED, bool MINUS_ZERO, bool NO_NAN>\n" FN
     "float sn_decode(unsigned char raw) {\n"
     "  unsigned code = raw;\n"
     "  if (S == 0) return __uint_as_float(code == NANC ? 0x7fc00000u : code == 0 ? 0x400000u : code << 23);\n"
     "  code &= 2 * S - 1;\n"
     "  unsigned a = code & (S - 1), sign = (code & S) << (32 - W), r;\n"
     "  if (!MINUS_ZERO && code == NANC) return __uint_as_float(0x7fc00000u);\n"
     "  if (a > MOST) r = INF && a == OVER ? 0x7f800000u : 0x7fc00000u;\n"
     "  else if (a < 1u << M) r = __float_as_uint((float)a * __uint_as_float((unsigned)(127 + 1 - B - M) << 23));\n"
     "  else r = (a << (23 - M)) + ((unsigned)(127 - B) << 23);\n"
     "  return __uint_as_float(r | sign);\n}\n"},
    {"sn_odd",
     "/* To f32, exactly or to the neighbour whose last bit is 1: rounding that once more to a narrow type is right. */\n" FN
     "float sn_odd(double v) {\n"
     "  float f = __double2float_rn(v);\n"
     "  if ((double)f == v || v != v) return f;\n"
     "  unsigned u = __float_as_uint(f);\n"
     "  if (fabs((double)f) > fabs(v)) u--;\n"
     "  return __uint_as_float(u | 1u);\n}\n" FN "float sn_odd(int v) { return sn_odd((double)v); }\n" FN "float sn_odd(unsigned v) { return sn_odd((double)v); }\n" FN
     "float sn_odd(unsigned long long v) {\n"
     "  if (v >= 1ULL << 53) v = (v & 0x7ffULL) ? (v & ~0x7ffULL) | 0x800ULL : v;\n"
     "  return sn_odd((double)v);\n}\n" FN "float sn_odd(long long v) { return v < 0 ? -sn_odd(0ULL - (unsigned long long)v) : sn_odd((unsigned long long)v); }\n"},

    /* ---- integers: they wrap; x / 0 is all ones, x % 0 is x; shifts by the width or more leave nothing, or the sign ---- */
    {"sn_to_int", "/* Toward zero, then the nearest end of the range; NaN is 0. */\ntemplate <class T, class F>\n" FN
                  "T sn_to_int(F x, F lo, F hi, T least, T most) { return !(x == x) ? (T)0 : x <= lo ? least : x >= hi ? most : (T)x; }\n"},
    {"sn_sign_extend", "template <int BITS, class T>\n" FN "signed char sn_sign_extend(T x) { return (signed char)((int)((unsigned)x << (32 - BITS)) >> (32 - BITS)); }\n"},
    {"sn_low", "template <int BITS, class T>\n" FN "unsigned long long sn_low(T x) { return (unsigned long long)x & (~0ULL >> (64 - BITS)); }\n"},
    {"sn_int_abs", "template <int BITS, class T>\n" FN "T sn_int_abs(T a) { return a < 0 ? (T)(0ULL - (unsigned long long)a) : a; }\n"},
    {"sn_int_sign", "template <int BITS, class T>\n" FN "T sn_int_sign(T a) { return (T)(a > 0 ? 1 : a == 0 ? 0 : -1); }\n"},
    {"sn_popcnt", "template <int BITS, class T>\n" FN "int sn_popcnt(T a) { return __popcll(sn_low<BITS>(a)); }\n"},
    {"sn_clz", "template <int BITS, class T>\n" FN "int sn_clz(T a) { return __clzll((long long)sn_low<BITS>(a)) - (64 - BITS); }\n"},
    {"sn_int_div", "template <int BITS, class T>\n" FN
                   "T sn_int_div(T a, T b) { return b == 0 ? (T)-1 : (T)-1 < (T)0 && b == (T)-1 ? (T)(0ULL - (unsigned long long)a) : (T)(a / b); }\n"},
    {"sn_int_rem", "template <int BITS, class T>\n" FN "T sn_int_rem(T a, T b) { return b == 0 ? a : (T)-1 < (T)0 && b == (T)-1 ? (T)0 : (T)(a % b); }\n"},
    {"sn_int_pow", "template <int BITS, class T>\n" FN
                   "T sn_int_pow(T x, T y) {\n"
                   "  if ((T)-1 < (T)0 && y < 0) return x == (T)1 ? (T)1 : x == (T)-1 ? ((y & 1) ? x : (T)1) : (T)0;\n"
                   "  unsigned long long r = 1, base = (unsigned long long)x, left = sn_low<BITS>(y);\n"
                   "  for (; left; left >>= 1, base *= base) r *= (left & 1) ? base : 1ULL;\n"
                   "  return (T)r;\n}\n"},
    {"sn_mulhi", "template <int BITS, class T>\n" FN
                 "T sn_mulhi(T a, T b) {\n"
                 "  if (BITS == 64) return (T)-1 < (T)0 ? (T)__mul64hi((long long)a, (long long)b) : (T)__umul64hi((unsigned long long)a, (unsigned long long)b);\n"
                 "  return (T)-1 < (T)0 ? (T)((long long)a * (long long)b >> BITS) : (T)((unsigned long long)a * (unsigned long long)b >> BITS);\n}\n"},
    {"sn_shl", "template <int BITS, class T>\n" FN "T sn_shl(T a, T b) { return sn_low<BITS>(b) >= BITS ? (T)0 : (T)((unsigned long long)a << sn_low<BITS>(b)); }\n"},
    {"sn_shr", "template <int BITS, class T>\n" FN "T sn_shr(T a, T b) { return sn_low<BITS>(b) >= BITS ? (T)0 : (T)(sn_low<BITS>(a) >> sn_low<BITS>(b)); }\n"},
    {"sn_sar", "template <int BITS, class T>\n" FN
               "T sn_sar(T a, T b) {\n  long long x = (long long)(sn_low<BITS>(a) << (64 - BITS)) >> (64 - BITS);\n  unsigned long long n = sn_low<BITS>(b);\n"
               "  return (T)(x >> (n >= BITS ? BITS - 1 : (int)n));\n}\n"},

    /* ---- floats ---- */
    {"sn_is_finite", FN "bool sn_is_finite(float x) { return fabsf(x) < __int_as_float(0x7f800000); }\n" FN
                     "bool sn_is_finite(double x) { return fabs(x) < __longlong_as_double(0x7ff0000000000000LL); }\n"},
    {"sn_logistic", FN "float sn_logistic(float x) { return 1.0f / (1.0f + expf(-x)); }\n" FN "double sn_logistic(double x) { return 1.0 / (1.0 + exp(-x)); }\n"},
    {"sn_rsqrt", FN "float sn_rsqrt(float x) { return 1.0f / sqrtf(x); }\n" FN "double sn_rsqrt(double x) { return 1.0 / sqrt(x); }\n"},
    {"sn_sign", "template <class T>\n" FN "T sn_sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x; }\n"},
    {"sn_maximum", "/* NaN wins, and -0 is less than +0. */\n" FN "float sn_maximum(float a, float b) { float r; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }\n" FN
                   "double sn_maximum(double a, double b) {\n"
                   "  if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));\n"
                   "  return a != a ? a : a > b ? a : b;\n}\n"},
    {"sn_minimum", FN "float sn_minimum(float a, float b) { float r; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }\n" FN
                   "double sn_minimum(double a, double b) {\n"
                   "  if (a == b) return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));\n"
                   "  return a != a ? a : a < b ? a : b;\n}\n"},
    {"sn_clamp", "/* A NaN anywhere gives NaN; where lo > hi, hi wins. */\ntemplate <class T>\n" FN
                 "T sn_clamp(T lo, T x, T hi) {\n"
                 "  T r = x < lo ? lo : x;\n  r = r > hi ? hi : r;\n"
                 "  return lo != lo ? lo : hi != hi ? hi : x != x ? x : r;\n}\n"},
    {"sn_order", "/* Keys in the total order -NaN < -inf < … < -0 < +0 < … < inf < NaN. */\n" FN
                 "int sn_order(float x) { int i = __float_as_int(x); return i ^ (int)((unsigned)(i >> 31) >> 1); }\n" FN
                 "long long sn_order(double x) { long long i = __double_as_longlong(x); return i ^ (long long)((unsigned long long)(i >> 63) >> 1); }\n"},
    {"sn_reduce_bits",
     "template <int E, int M, int FULL_E, int FULL_M, class U>\n" FN
     "U sn_reduce_bits(U x) {\n"
     "  const int eb = E > FULL_E ? FULL_E : E, m = M > FULL_M ? FULL_M : M, drop = FULL_M - m;\n"
     "  const U least = (U)1 << FULL_M, inf = (((U)1 << FULL_E) - 1) << FULL_M, sign = x & ((U)1 << (FULL_E + FULL_M)), a = x ^ sign;\n"
     "  U r = a;\n"
     "  if (eb == FULL_E && m == FULL_M) return x;\n"
     "  if (drop) r = (a + (a >> drop & 1) + ((U)1 << (drop ? drop - 1 : 0)) - 1) & ~(((U)1 << drop) - 1);\n"
     "  if (eb == FULL_E) { /* subnormals: what survives becomes the least normal number */\n"
     "    if (a < least) r = a >= (drop >= 2 ? least - ((U)1 << (drop >= 2 ? drop - 2 : 0)) : least) ? least : 0;\n"
     "  } else {\n"
     "    const U bias = ((U)1 << (eb - 1)) - 1, full = ((U)1 << (FULL_E - 1)) - 1;\n"
     "    if (r >= (full + bias + 1) << FULL_M) r = inf;\n"
     "    if (r < (full + 1 - bias) << FULL_M) r = 0;\n"
     "  }\n"
     "  return (a >= inf ? m == 0 ? inf : a : r) | sign;\n}\n"},
    {"sn_reduce_precision", "template <int E, int M>\n" FN "float sn_reduce_precision(float x) { return __uint_as_float(sn_reduce_bits<E, M, 8, 23>(__float_as_uint(x))); }\n"
                            "template <int E, int M>\n" FN
                            "double sn_reduce_precision(double x) { return __longlong_as_double((long long)sn_reduce_bits<E, M, 11, 52>((unsigned long long)__double_as_longlong(x))); }\n"},

#include "helpers_complex.inc"

    {"sn_to_tf32", "/* The nearest value with 10 bits of mantissa; ties to even on sm_90a, else away from zero, as cvt.rna.tf32 alone exists there. NaN stays one. */\n" FN
                   "float sn_to_tf32(float x) {\n"
                   "  unsigned r;\n"
                   "#if __CUDA_ARCH__ >= 900\n"
                   "  asm(\"cvt.rn.tf32.f32 %0, %1;\" : \"=r\"(r) : \"f\"(x));\n"
                   "#else\n"
                   "  asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(r) : \"f\"(x));\n"
                   "#endif\n"
                   "  return __uint_as_float(r);\n}\n"},
    {"sn_copy_async", "/* BYTES from memory to shared memory while other work goes on; zeros instead where `wanted` says no. */\n"
                      "template <int BYTES>\n" FN "void sn_copy_async(void *to, const void *from) {\n"
                      "  const unsigned at = (unsigned)__cvta_generic_to_shared(to);\n"
                      "  if (BYTES == 16) asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" ::\"r\"(at), \"l\"(from) : \"memory\");\n"
                      "  else asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2;\" ::\"r\"(at), \"l\"(from), \"n\"(BYTES) : \"memory\");\n}\n"
                      "template <int BYTES>\n" FN "void sn_copy_async(void *to, const void *from, bool wanted) {\n"
                      "  const unsigned at = (unsigned)__cvta_generic_to_shared(to), bytes = wanted ? BYTES : 0;\n"
                      "  if (BYTES == 16) asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"(at), \"l\"(from), \"r\"(bytes) : \"memory\");\n"
                      "  else asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" ::\"r\"(at), \"l\"(from), \"n\"(BYTES), \"r\"(bytes) : \"memory\");\n}\n"},
    {"sn_tf32", FN "unsigned sn_tf32(unsigned x) { return __float_as_uint(sn_to_tf32(__uint_as_float(x))); }\n"},
    {"sn_load_matrices", "/* Four matrices of 8 rows x 16 bytes: lane l has the address of row l % 8 of matrix l / 8, and gets 4 bytes of row l / 4 of each. */\n" FN
                         "void sn_load_matrices(unsigned *d, const void *row) {\n" LOAD_MATRICES("") "}\n"},
    {"sn_load_matrices_across", "/* Likewise of 16-bit elements, and gets two of column l / 4 of each. */\n" FN
                                "void sn_load_matrices_across(unsigned *d, const void *row) {\n" LOAD_MATRICES(".trans") "}\n"},
    /* A 16 x 8 tile of sums += 16 rows times 8 columns. */
    {"sn_mma_tf32", FN "void sn_mma_tf32(float *d, const unsigned *a, const unsigned *b) {\n" MMA("k8.row.col.f32.tf32.tf32") "}\n"},
    {"sn_mma_bf16", FN "void sn_mma_bf16(float *d, const unsigned *a, const unsigned *b) {\n" MMA("k16.row.col.f32.bf16.bf16") "}\n"},
    {"sn_mma_f16", FN "void sn_mma_f16(float *d, const unsigned *a, const unsigned *b) {\n" MMA("k16.row.col.f32.f16.f16") "}\n"},

    /* ---- lanes ---- */
    {"sn_down", "/* Any value from lane + by, in 32-bit pieces. */\ntemplate <class T>\n" FN
                "T sn_down(T v, int by) {\n"
                "  union { T v; unsigned w[(sizeof(T) + 3) / 4]; } x = {};\n  x.v = v;\n"
                "  for (int i = 0; i < (int)(sizeof x.w / 4); i++) x.w[i] = __shfl_down_sync(0xffffffffu, x.w[i], by);\n"
                "  return x.v;\n}\n"},
    {"sn_first", "template <class T>\n" FN
                 "T sn_first(T v) {\n"
                 "  union { T v; unsigned w[(sizeof(T) + 3) / 4]; } x = {};\n  x.v = v;\n"
                 "  for (int i = 0; i < (int)(sizeof x.w / 4); i++) x.w[i] = __shfl_sync(0xffffffffu, x.w[i], 0);\n"
                 "  return x.v;\n}\n"},
    {"sn_warp_tree", "/* op over the lanes of a warp by the same tree as sn_tree's; every lane gets the result. */\ntemplate <class T, class F>\n" FN
                     "T sn_warp_tree(T v, F op) {\n"
                     "#pragma unroll\n"
                     "  for (int n = 16; n > 0; n /= 2) v = op(v, sn_down(v, n));\n"
                     "  return sn_first(v);\n}\n"},
    {"sn_tree",
     "/* op over W lanes by a balanced tree: lane l with l + W/2, then with l + W/4, …; every thread of the block gets the result. */\n"
     "template <int W, int THREADS, class T, class F>\n" FN
     "T sn_tree(T v, void *shared, F op) {\n"
     "  T *s = (T *)shared;\n"
     "  const int lane = threadIdx.x;\n"
     "  if (W > 32) {\n"
     "    __syncthreads(); /* the readers of the last result are done */\n"
     "    if (lane < W) s[lane] = v;\n"
     "    __syncthreads();\n"
     "    if (lane < 32) {\n"
     "      T x[W / 32 > 0 ? W / 32 : 1];\n"
     "#pragma unroll\n"
     "      for (int i = 0; i < W / 32; i++) x[i] = s[lane + 32 * i];\n"
     "#pragma unroll\n"
     "      for (int n = W / 64; n > 0; n /= 2)\n"
     "#pragma unroll\n"
     "        for (int i = 0; i < n; i++) x[i] = op(x[i], x[i + n]);\n"
     "      v = x[0];\n"
     "    }\n"
     "  }\n"
     "  if (lane < 32) {\n"
     "#pragma unroll\n"
     "    for (int n = W < 32 ? W / 2 : 16; n > 0; n /= 2) v = op(v, sn_down(v, n));\n"
     "  }\n"
     "  if (THREADS == 32) return sn_first(v);\n"
     "  if (W <= 32) __syncthreads();\n"
     "  if (lane == 0) s[0] = v;\n"
     "  __syncthreads();\n"
     "  return s[0];\n}\n"},
};

enum { N_HELPERS = sizeof helpers / sizeof helpers[0] };

static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static bool names(const char *text, const char *name) {
  size_t n = strlen(name);
  for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
    if ((at == text || !is_word(at[-1])) && !is_word(at[n])) return true;
  }
  return false;
}

void gpu_add_helpers(sn_str *to, const char *body) {
  bool wanted[N_HELPERS] = {false};
  for (int i = N_HELPERS - 1; i >= 0; i--) {
    wanted[i] = names(body, helpers[i].name);
    for (int k = i + 1; k < N_HELPERS && !wanted[i]; k++) wanted[i] = wanted[k] && names(helpers[k].text, helpers[i].name);
  }
  for (int i = 0; i < N_HELPERS; i++) {
    if (wanted[i]) sn_str_add(to, helpers[i].text);
  }
}
