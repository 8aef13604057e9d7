/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* chlo: functions that HLO has not, written out. f16 and narrower are computed in f32 and rounded once.
 *
 * lgamma, digamma: Lanczos' approximation with g = 7, n = 9. erfc, bessel_i1e: the rational and Chebyshev approximations of Cephes (S. Moshier).
 * erf_inv: M. Giles, "Approximating the erfinv function". zeta: Euler-Maclaurin summation. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "map.h"

/* ---- small words ---- */

typedef sn_instr *V;

static V k(sn_sm *s, V like, double v) { return sn_build_full_like(&s->b, like, v); }
static V un(sn_sm *s, sn_opcode op, V x) { return sn_build_unary(&s->b, op, x); }
static V bin(sn_sm *s, sn_opcode op, V x, V y) { return sn_build_binary(&s->b, op, x, y); }
static V add(sn_sm *s, V x, V y) { return bin(s, SN_OP_ADD, x, y); }
static V sub(sn_sm *s, V x, V y) { return bin(s, SN_OP_SUBTRACT, x, y); }
static V mul(sn_sm *s, V x, V y) { return bin(s, SN_OP_MULTIPLY, x, y); }
static V quo(sn_sm *s, V x, V y) { return bin(s, SN_OP_DIVIDE, x, y); }
static V cmp(sn_sm *s, int64_t direction, V x, V y) { return sn_build_compare(&s->b, direction, x, y); }
static V sel(sn_sm *s, V p, V t, V f) { return sn_build_select(&s->b, p, t, f); }

/* c[0] x^(n-1) + … + c[n-1] */
static V horner(sn_sm *s, V x, const double *c, int n) {
  V p = k(s, x, c[0]);
  for (int i = 1; i < n; i++) p = add(s, mul(s, p, x), k(s, x, c[i]));
  return p;
}
#define HORNER(s, x, c) horner(s, x, c, (int)(sizeof(c) / sizeof((c)[0])))

static bool is_f64(V x) { return x != NULL && x->shape->type == SN_TYPE_F64; }

/* ---- lgamma, digamma ---- */

#define LANCZOS_G 7.0
#define LANCZOS_BASE 0.99999999999980993227684700473478
static const double lanczos[8] = {676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
                                  -176.61502916214059906584551354,     12.507343278686904814458936853,    -0.13857109526572011689554707,
                                  9.984369578019570859563e-6,          1.50563273514931155834e-7};
#define PI 3.14159265358979323846

/* Below 1/2 the function is reflected. */
static V lanczos_argument(sn_sm *s, V x, V *reflect) {
  *reflect = cmp(s, SN_DIRECTION_LT, x, k(s, x, 0.5));
  return sel(s, *reflect, un(s, SN_OP_NEGATE, x), sub(s, x, k(s, x, 1)));
}

/* log(g + 1/2 + z) without losing small z. */
static V lanczos_log(sn_sm *s, V z) {
  double t = LANCZOS_G + 0.5;
  return add(s, k(s, z, log(t)), un(s, SN_OP_LOG_PLUS_ONE, quo(s, z, k(s, z, t))));
}

static V lgamma_reflected(sn_sm *s, V x, V log_y) {
  V a = un(s, SN_OP_ABS, x), fraction = sub(s, a, un(s, SN_OP_FLOOR, a));
  V far = cmp(s, SN_DIRECTION_GT, fraction, k(s, x, 0.5));
  V reduced = sel(s, far, sub(s, k(s, x, 1), fraction), fraction);
  V denominator = un(s, SN_OP_LOG, un(s, SN_OP_SINE, mul(s, k(s, x, PI), reduced)));
  V finite = sub(s, sub(s, k(s, x, log(PI)), denominator), log_y);
  return sel(s, un(s, SN_OP_IS_FINITE, denominator), finite, un(s, SN_OP_NEGATE, denominator));
}

static V chlo_lgamma(sn_sm *s, V x) {
  V reflect = NULL, z = lanczos_argument(s, x, &reflect), a = k(s, z, LANCZOS_BASE);
  for (int i = 0; i < 8; i++) a = add(s, a, quo(s, k(s, z, lanczos[i]), add(s, z, k(s, z, i + 1))));
  V t = add(s, k(s, z, LANCZOS_G + 0.5), z), log_t = lanczos_log(s, z);
  V power = mul(s, sub(s, add(s, z, k(s, z, 0.5)), quo(s, t, log_t)), log_t);
  V log_y = add(s, add(s, k(s, z, (log(2) + log(PI)) / 2), power), un(s, SN_OP_LOG, a));
  V r = sel(s, reflect, lgamma_reflected(s, x, log_y), log_y), inf = k(s, x, INFINITY);
  return sel(s, cmp(s, SN_DIRECTION_EQ, un(s, SN_OP_ABS, x), inf), inf, r);
}

static V chlo_digamma(sn_sm *s, V x) {
  V reflect = NULL, z = lanczos_argument(s, x, &reflect), num = k(s, z, 0), den = k(s, z, LANCZOS_BASE);
  for (int i = 0; i < 8; i++) {
    V c = k(s, z, lanczos[i]), at = add(s, z, k(s, z, i + 1));
    num = sub(s, num, quo(s, c, mul(s, at, at)));
    den = add(s, den, quo(s, c, at));
  }
  V t = add(s, k(s, z, LANCZOS_G + 0.5), z);
  V y = sub(s, add(s, lanczos_log(s, z), quo(s, num, den)), quo(s, k(s, z, LANCZOS_G), t));
  V reduced = add(s, x, un(s, SN_OP_ABS, un(s, SN_OP_FLOOR, add(s, x, k(s, x, 0.5))))), angle = mul(s, k(s, x, PI), reduced);
  V cot = quo(s, mul(s, k(s, x, PI), un(s, SN_OP_COSINE, angle)), un(s, SN_OP_SINE, angle));
  V r = sel(s, reflect, sub(s, y, cot), y);
  V pole = bin(s, SN_OP_AND, cmp(s, SN_DIRECTION_LE, x, k(s, x, 0)), cmp(s, SN_DIRECTION_EQ, x, un(s, SN_OP_FLOOR, x)));
  return sel(s, pole, k(s, x, NAN), r);
}

/* ---- erfc ---- */

static const double erfc_p64[] = {2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0, 4.86371970985681366614E1, 1.96520832956077098242E2,
                                  5.26445194995477358631E2,   9.34528527171957607540E2,  1.02755188689515710272E3, 5.57535335369399327526E2};
static const double erfc_q64[] = {1.00000000000000000000E0, 1.32281951154744992508E1, 8.67072140885989742329E1, 3.54937778887819891062E2, 9.75708501743205489753E2,
                                  1.82390916687909736289E3, 2.24633760818710981792E3, 1.65666309194161350182E3, 5.57535340817727675546E2};
static const double erfc_r64[] = {5.64189583547755073984E-1, 1.27536670759978104416E0, 5.01905042251180477414E0, 6.16021097993053585195E0, 7.40974269950448939160E0, 2.97886665372100240670E0};
static const double erfc_s64[] = {1.00000000000000000000E0, 2.26052863220117276590E0, 9.39603524938001434673E0, 1.20489539808096656605E1,
                                  1.70814450747565897222E1, 9.60896809063285878198E0, 3.36907645100081516050E0};
static const double erfc_p32[] = {+2.326819970068386E-2, -1.387039388740657E-1, +3.687424674597105E-1, -5.824733027278666E-1, +6.210004621745983E-1,
                                  -4.944515323274145E-1, +3.404879937665872E-1, -2.741127028184656E-1, +5.638259427386472E-1};
static const double erfc_r32[] = {-1.047766399936249E+1, +1.297719955372516E+1, -7.495518717768503E+0, +2.921019019210786E+0,
                                  -1.015265279202700E+0, +4.218463358204948E-1, -2.820767439740514E-1, +5.641895067754075E-1};

/* For |x| > 1. */
static V erfc_tail(sn_sm *s, V x) {
  V a = un(s, SN_OP_ABS, x), z = un(s, SN_OP_NEGATE, mul(s, x, x)), y = NULL;
  if (is_f64(x)) {
    V e = un(s, SN_OP_EXPONENTIAL, z), near = cmp(s, SN_DIRECTION_LT, a, k(s, x, 8));
    V below = quo(s, mul(s, e, HORNER(s, a, erfc_p64)), HORNER(s, a, erfc_q64)), above = quo(s, mul(s, e, HORNER(s, a, erfc_r64)), HORNER(s, a, erfc_s64));
    y = sel(s, near, below, above);
  } else {
    V q = quo(s, k(s, x, 1), a), w = mul(s, q, q);
    V p = sel(s, cmp(s, SN_DIRECTION_LT, a, k(s, x, 2)), HORNER(s, w, erfc_p32), HORNER(s, w, erfc_r32));
    y = mul(s, mul(s, un(s, SN_OP_EXPONENTIAL, z), q), p);
  }
  /* Where exp underflows. */
  V zero = k(s, x, 0), small = cmp(s, SN_DIRECTION_LT, z, k(s, x, is_f64(x) ? -7.09782712893383996843E2 : -88.72283905206835));
  y = sel(s, small, zero, y);
  return sel(s, cmp(s, SN_DIRECTION_LT, x, zero), sub(s, k(s, x, 2), y), y);
}

static V chlo_erfc(sn_sm *s, V x) {
  V one = k(s, x, 1), near = cmp(s, SN_DIRECTION_LT, un(s, SN_OP_ABS, x), one);
  return sel(s, near, sub(s, one, un(s, SN_OP_ERF, x)), erfc_tail(s, x));
}

/* ---- erf_inv ---- */

static const double inv32_near[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941};
static const double inv32_far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682};
static const double inv64_near[] = {-3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,   -1.333171662854620906e-16,
                                    2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14, -8.1519341976054721522e-14, 2.6335093153082322977e-12,
                                    -1.2975133253453532498e-11, -5.4154120542946279317e-11, 1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08,
                                    4.2347877827932403518e-07,  -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
                                    -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356};
static const double inv64_mid[] = {2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,  1.5027403968909827627e-06,
                                   -4.013867526981545969e-06,  2.9234449089955446044e-06, 1.2475304481671778723e-05,  -4.7318229009055733981e-05, 6.8284851459573175448e-05,
                                   2.4031110387097893999e-05,  -0.0003550375203628474796, 0.00095328937973738049703,  -0.0016882755560235047313,  0.0024914420961078508066,
                                   -0.0037512085075692412107,  0.005370914553590063617,   1.0052589676941592334,      3.0838856104922207635};
static const double inv64_far[] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,  -3.7894654401267369937e-09, 7.6157012080783393804e-09,
                                   -1.4960026627149240478e-08, 2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,  -9.9298272942317002539e-07,
                                   4.5260625972231537039e-06,  -1.9681778105531670567e-05, 7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
                                   1.0103004648645343977,      4.8499064014085844221};

static V chlo_erf_inv(sn_sm *s, V x) {
  V w = un(s, SN_OP_NEGATE, un(s, SN_OP_LOG_PLUS_ONE, mul(s, x, un(s, SN_OP_NEGATE, x)))), root = un(s, SN_OP_SQRT, w), p = NULL;
  if (is_f64(x)) {
    V near = HORNER(s, sub(s, w, k(s, w, 3.125)), inv64_near), mid = HORNER(s, sub(s, root, k(s, w, 3.25)), inv64_mid), far = HORNER(s, sub(s, root, k(s, w, 5)), inv64_far);
    p = sel(s, cmp(s, SN_DIRECTION_LT, w, k(s, w, 6.25)), near, sel(s, cmp(s, SN_DIRECTION_LT, w, k(s, w, 16)), mid, far));
  } else {
    V near = HORNER(s, sub(s, w, k(s, w, 2.5)), inv32_near), far = HORNER(s, sub(s, root, k(s, w, 3)), inv32_far);
    p = sel(s, cmp(s, SN_DIRECTION_LT, w, k(s, w, 5)), near, far);
  }
  V edge = cmp(s, SN_DIRECTION_EQ, un(s, SN_OP_ABS, x), k(s, x, 1));
  return sel(s, edge, mul(s, x, k(s, x, INFINITY)), mul(s, p, x));
}

/* ---- bessel_i1e ---- */

static const double i1e_a[] = {2.77791411276104639959E-18, -2.11142121435816608115E-17, 1.55363195773620046921E-16, -1.10559694773538630805E-15, 7.60068429473540693410E-15,
                               -5.04218550472791168711E-14, 3.22379336594557470981E-13, -1.98397439776494371520E-12, 1.17361862988909016308E-11, -6.66348972350202774223E-11,
                               3.62559028155211703701E-10, -1.88724975172282928790E-9, 9.38153738649577178388E-9, -4.44505912879632808065E-8, 2.00329475355213526229E-7,
                               -8.56872026469545474066E-7, 3.47025130813767847674E-6, -1.32731636560394358279E-5, 4.78156510755005422638E-5, -1.61760815825896745588E-4,
                               5.12285956168575772895E-4, -1.51357245063125314899E-3, 4.15642294431288815669E-3, -1.05640848946261981558E-2, 2.47264490306265168283E-2,
                               -5.29459812080949914269E-2, 1.02643658689847095384E-1, -1.76416518357834055153E-1, 2.52587186443633654823E-1};
static const double i1e_b[] = {7.51729631084210481353E-18, 4.41434832307170791151E-18, -4.65030536848935832153E-17, -3.20952592199342395980E-17, 2.96262899764595013876E-16,
                               3.30820231092092828324E-16, -1.88035477551078244854E-15, -3.81440307243700780478E-15, 1.04202769841288027642E-14, 4.27244001671195135429E-14,
                               -2.10154184277266431302E-14, -4.08355111109219731823E-13, -7.19855177624590851209E-13, 2.03562854414708950722E-12, 1.41258074366137813316E-11,
                               3.25260358301548823856E-11, -1.89749581235054123450E-11, -5.58974346219658380687E-10, -3.83538038596423702205E-9, -2.63146884688951950684E-8,
                               -2.51223623787020892529E-7, -3.88256480887769039346E-6, -1.10588938762623716291E-4, -9.76109749136146840777E-3, 7.78576235018280120474E-1};
/* In f32 the leading terms are below half a unit in the last place. */
enum { I1E_SKIP_A = 12, I1E_SKIP_B = 18 };

static V chebyshev(sn_sm *s, V x, const double *c, int n) {
  V b0 = k(s, x, 0), b1 = b0, b2 = b0;
  for (int i = 0; i < n; i++) {
    b2 = b1;
    b1 = b0;
    b0 = add(s, sub(s, mul(s, x, b1), b2), k(s, x, c[i]));
  }
  return mul(s, k(s, x, 0.5), sub(s, b0, b2));
}

static V chlo_bessel_i1e(sn_sm *s, V x) {
  int skip_a = is_f64(x) ? 0 : I1E_SKIP_A, skip_b = is_f64(x) ? 0 : I1E_SKIP_B;
  int n_a = (int)(sizeof i1e_a / sizeof i1e_a[0]), n_b = (int)(sizeof i1e_b / sizeof i1e_b[0]);
  V z = un(s, SN_OP_ABS, x), two = k(s, x, 2);
  V near = mul(s, chebyshev(s, sub(s, mul(s, k(s, x, 0.5), z), two), i1e_a + skip_a, n_a - skip_a), z);
  V far = quo(s, chebyshev(s, sub(s, quo(s, k(s, x, 32), z), two), i1e_b + skip_b, n_b - skip_b), un(s, SN_OP_SQRT, z));
  V y = sel(s, cmp(s, SN_DIRECTION_LE, z, k(s, x, 8)), near, far);
  return mul(s, un(s, SN_OP_SIGN, x), y);
}

/* ---- zeta, polygamma ---- */

/* (2k)! / B(2k), k = 1 … 12 */
static const double zeta_c[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12, 1.1646782814350067249e14,
                                -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18};
enum { ZETA_DIRECT = 10 };

/* The sum of (q + n)^-x over n >= 0. */
static V chlo_zeta(sn_sm *s, V x, V q) {
  V minus = un(s, SN_OP_NEGATE, x), one = k(s, x, 1), sum = bin(s, SN_OP_POWER, q, minus), a = q;
  for (int i = 0; i < ZETA_DIRECT; i++) {
    a = add(s, a, one);
    sum = add(s, sum, bin(s, SN_OP_POWER, a, minus));
  }
  a = add(s, a, one);
  V power = bin(s, SN_OP_POWER, a, minus), rising = quo(s, x, a), inverse = quo(s, one, mul(s, a, a)), tail = k(s, x, 0.5);
  for (int i = 0; i < 12; i++) {
    tail = add(s, tail, quo(s, rising, k(s, x, zeta_c[i])));
    if (i < 11) rising = mul(s, mul(s, rising, mul(s, add(s, x, k(s, x, 2 * i + 1)), add(s, x, k(s, x, 2 * i + 2)))), inverse);
  }
  V r = add(s, add(s, sum, quo(s, mul(s, power, a), sub(s, x, one))), mul(s, power, tail));
  V pole = bin(s, SN_OP_AND, cmp(s, SN_DIRECTION_LE, q, k(s, q, 0)), cmp(s, SN_DIRECTION_EQ, q, un(s, SN_OP_FLOOR, q)));
  V odd = bin(s, SN_OP_AND, cmp(s, SN_DIRECTION_LE, q, k(s, q, 0)), cmp(s, SN_DIRECTION_NE, x, un(s, SN_OP_FLOOR, x)));
  r = sel(s, pole, k(s, x, INFINITY), r);
  r = sel(s, odd, k(s, x, NAN), r);
  r = sel(s, cmp(s, SN_DIRECTION_LT, x, one), k(s, x, NAN), r);
  return sel(s, cmp(s, SN_DIRECTION_EQ, x, one), k(s, x, INFINITY), r);
}

/* (-1)^(n+1) n! zeta(n + 1, x) for whole n > 0; digamma for 0. */
static V chlo_polygamma(sn_sm *s, V n, V x) {
  V one = k(s, n, 1), next = add(s, n, one), zero = k(s, n, 0);
  V even = cmp(s, SN_DIRECTION_EQ, bin(s, SN_OP_REMAINDER, n, k(s, n, 2)), zero), sign = sel(s, even, k(s, n, -1), one);
  V r = mul(s, mul(s, sign, un(s, SN_OP_EXPONENTIAL, chlo_lgamma(s, next))), chlo_zeta(s, next, x));
  r = sel(s, cmp(s, SN_DIRECTION_EQ, n, zero), chlo_digamma(s, x), r);
  V bad = bin(s, SN_OP_OR, cmp(s, SN_DIRECTION_NE, n, un(s, SN_OP_FLOOR, n)), cmp(s, SN_DIRECTION_LT, n, zero));
  return sel(s, bad, k(s, n, NAN), r);
}

/* ---- next_after, square, conj ---- */

/* On the bits: magnitudes are ordered as integers are. */
static V chlo_next_after(sn_sm *s, V x, V y) {
  if (x == NULL || y == NULL) return NULL;
  int bits = sn_type_bits(x->shape->type);
  sn_type t = bits == 64 ? SN_TYPE_S64 : bits == 32 ? SN_TYPE_S32 : bits == 16 ? SN_TYPE_S16 : SN_TYPE_S8;
  V xi = sn_build_bitcast_convert(&s->b, x, t), yi = sn_build_bitcast_convert(&s->b, y, t);
  if (xi == NULL) return NULL;
  V top = sn_build_broadcast_scalar(&s->b, sn_build_scalar_i64(&s->b, t, (int64_t)((uint64_t)1 << (bits - 1))), xi->shape), rest = un(s, SN_OP_NOT, top);
  V zero = sub(s, xi, xi), one = sn_build_broadcast_scalar(&s->b, sn_build_scalar_i64(&s->b, t, 1), xi->shape);
  V xa = bin(s, SN_OP_AND, xi, rest), ya = bin(s, SN_OP_AND, yi, rest), ys = bin(s, SN_OP_AND, yi, top), xs = bin(s, SN_OP_AND, xi, top);
  V inward = bin(s, SN_OP_OR, cmp(s, SN_DIRECTION_GT, xa, ya), cmp(s, SN_DIRECTION_NE, xs, ys));
  V moved = add(s, xi, sel(s, inward, un(s, SN_OP_NEGATE, one), one));
  V x_zero = cmp(s, SN_DIRECTION_EQ, xa, zero), y_zero = cmp(s, SN_DIRECTION_EQ, ya, zero);
  V from_zero = sel(s, y_zero, yi, bin(s, SN_OP_OR, ys, one)), r = sel(s, x_zero, from_zero, moved);
  V same = cmp(s, SN_DIRECTION_EQ, xi, yi), nan = bin(s, SN_OP_OR, cmp(s, SN_DIRECTION_NE, x, x), cmp(s, SN_DIRECTION_NE, y, y));
  V result = sn_build_bitcast_convert(&s->b, sel(s, same, yi, r), x->shape->type);
  return sel(s, nan, add(s, x, y), result);
}

/* (a + bi)^2 without the cancellation of a^2 - b^2, and with a real part of 0 where |a| = |b| although a + b may overflow. */
static V chlo_square(sn_sm *s, V x) {
  if (x == NULL || !sn_type_is_complex(x->shape->type)) return mul(s, x, x);
  V a = un(s, SN_OP_REAL, x), b = un(s, SN_OP_IMAG, x);
  V re = mul(s, sub(s, a, b), add(s, a, b)), im = mul(s, a, b);
  V equal = bin(s, SN_OP_AND, un(s, SN_OP_IS_FINITE, a), cmp(s, SN_DIRECTION_EQ, un(s, SN_OP_ABS, a), un(s, SN_OP_ABS, b)));
  return sn_build_complex(&s->b, sel(s, equal, k(s, a, 0), re), add(s, im, im));
}

static V chlo_conj(sn_sm *s, V x) {
  if (x == NULL || !sn_type_is_complex(x->shape->type)) return x;
  return sn_build_complex(&s->b, un(s, SN_OP_REAL, x), un(s, SN_OP_NEGATE, un(s, SN_OP_IMAG, x)));
}

/* ---- rows ---- */

typedef struct special {
  const char *name;
  V (*one)(sn_sm *s, V x);
  V (*two)(sn_sm *s, V x, V y);
  bool wide; /* narrow floats are computed in f32 */
} special;
static const special specials[] = {{"bessel_i1e", chlo_bessel_i1e, NULL, true}, {"conj", chlo_conj, NULL, false},       {"digamma", chlo_digamma, NULL, true},
                                   {"erf_inv", chlo_erf_inv, NULL, true},       {"erfc", chlo_erfc, NULL, true},        {"lgamma", chlo_lgamma, NULL, true},
                                   {"next_after", NULL, chlo_next_after, false}, {"polygamma", NULL, chlo_polygamma, true}, {"square", chlo_square, NULL, false},
                                   {"zeta", NULL, chlo_zeta, true}};

static sn_status apply(sn_sm *s, const sn_mlir_op *op, const special *f, sn_instr **in, sn_instr **out) {
  sn_type t = in[0]->shape->type;
  bool widen = f->wide && t != SN_TYPE_F32 && t != SN_TYPE_F64;
  if (f->wide && !sn_type_is_float(t)) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected floats, found %s", sn_type_text(t));
  V x = widen ? sn_build_convert(&s->b, in[0], SN_TYPE_F32) : in[0];
  V y = f->two == NULL ? NULL : widen ? sn_build_convert(&s->b, in[1], SN_TYPE_F32) : in[1];
  SN_TRY(sn_sm_built(s));
  V r = f->two != NULL ? f->two(s, x, y) : f->one(s, x);
  if (widen) r = sn_build_convert(&s->b, r, t);
  out[0] = r;
  return sn_sm_built(s);
}

static const special *special_find(const char *name) {
  const char *dot = strrchr(name, '.'), *at = dot != NULL ? dot + 1 : name;
  if (strncmp(at, "broadcast_", 10) == 0) at += 10;
  for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
    if (strcmp(specials[i].name, at) == 0) return &specials[i];
  return NULL;
}

sn_status sn_sm_chlo_special(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const special *f = special_find(row->name);
  return f != NULL ? apply(s, op, f, in, out) : sn_sm_fail(s, op, SN_ERR_INTERNAL, "no such function");
}

sn_status sn_sm_chlo_unary(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)op;
  out[0] = sn_build_unary(&s->b, row->op, in[0]);
  return sn_sm_built(s);
}

sn_opcode sn_sm_named_op(const char *name) {
  const sn_sm_row *row = strncmp(name, "chlo.", 5) == 0 ? sn_sm_row_find(name) : NULL;
  return row != NULL && row->fn == sn_sm_chlo_unary ? row->op : SN_OP_COUNT;
}

/* ---- chlo.broadcast_*: NumPy's rules, or broadcast_dimensions for the operand of lower rank ---- */

static sn_status common_shape(sn_sm *s, const sn_mlir_op *op, uint32_t n, sn_instr **in, int64_t *dims, int *rank) {
  *rank = 0;
  for (uint32_t i = 0; i < n; i++)
    if (in[i]->shape->rank > *rank) *rank = in[i]->shape->rank;
  for (int d = 0; d < *rank; d++) dims[d] = 1;
  for (uint32_t i = 0; i < n; i++) {
    int off = *rank - in[i]->shape->rank;
    if (sn_mlir_find(op, "broadcast_dimensions") != NULL && off != 0) continue;
    for (int d = 0; d < in[i]->shape->rank; d++) {
      int64_t size = in[i]->shape->dims[d];
      if (dims[off + d] == 1) dims[off + d] = size;
      else if (size != 1 && size != dims[off + d]) return sn_sm_fail(s, op, SN_ERR_SHAPE, "sizes %" PRId64 " and %" PRId64 " do not broadcast", dims[off + d], size);
    }
  }
  return SN_OK;
}

static sn_status to_common(sn_sm *s, const sn_mlir_op *op, uint32_t n, sn_instr **in) {
  int64_t dims[SN_MAX_RANK], map[SN_MAX_RANK];
  int rank = 0;
  SN_TRY(common_shape(s, op, n, in, dims, &rank));
  for (uint32_t i = 0; i < n; i++) {
    int r = in[i]->shape->rank;
    int64_t given = 0;
    const int64_t *v = NULL;
    if (r != rank) SN_TRY(sn_sm_ints(s, op, "broadcast_dimensions", false, &given, &v));
    for (int d = 0; d < r; d++) map[d] = given == r && v != NULL ? v[d] : rank - r + d;
    for (int d = 0; d < r; d++)
      if (map[d] < 0 || map[d] >= rank || (in[i]->shape->dims[d] != 1 && in[i]->shape->dims[d] != dims[map[d]]) || (d > 0 && map[d] <= map[d - 1]))
        return sn_sm_fail(s, op, SN_ERR_SHAPE, "broadcast_dimensions do not fit %s", sn_shape_text(s->scratch, in[i]->shape));
    in[i] = sn_sm_spread(s, in[i], rank, dims, r, map);
  }
  return sn_sm_built(s);
}

sn_status sn_sm_broadcast_binary(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  SN_TRY(to_common(s, op, 2, in));
  return row->op == SN_OP_COMPARE ? sn_sm_compare(s, row, op, in, out) : sn_sm_binary(s, row, op, in, out);
}

sn_status sn_sm_broadcast_chlo(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  SN_TRY(to_common(s, op, 2, in));
  return sn_sm_chlo_special(s, row, op, in, out);
}

sn_status sn_sm_broadcast_select(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  SN_TRY(to_common(s, op, 3, in));
  return sn_sm_select(s, row, op, in, out);
}
