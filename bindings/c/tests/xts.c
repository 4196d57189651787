// SPDX-License-Identifier: MIT OR Apache-2.0
/* XTS gives the known answers of IEEE 1619-2007, annex B, in place and from buffer to buffer. */

#include "check.h"

static void known_answer(const unsigned char key[32], luxor_number first, size_t len,
                         const unsigned char *plain, const unsigned char *cipher) {
  unsigned char bytes[32], same[32];
  luxor_options *options = options_of_test();
  luxor_xts *xts;
  luxor_error *error;
  SUCCEEDS(luxor_xts_new(key, 32, options, &xts, &error));
  SUCCEEDS(luxor_xts_encrypt(xts, plain, bytes, len, len, first, 1, &error));
  CHECK(memcmp(bytes, cipher, len) == 0);
  SUCCEEDS(luxor_xts_decrypt(xts, bytes, same, len, len, first, 1, &error));
  CHECK(memcmp(same, plain, len) == 0);
  SUCCEEDS(luxor_xts_encrypt(xts, same, same, len, len, first, 1, &error));
  CHECK(memcmp(same, cipher, len) == 0);
  luxor_xts_free(xts);
  luxor_options_free(options);
}

/* Vector 2, and vector 15 with ciphertext stealing. */
static void known_answers(void) {
  static const unsigned char cipher2[32] = {
      0xc4, 0x54, 0x18, 0x5e, 0x6a, 0x16, 0x93, 0x6e, 0x39, 0x33, 0x40,
      0x38, 0xac, 0xef, 0x83, 0x8b, 0xfb, 0x18, 0x6f, 0xff, 0x74, 0x80,
      0xad, 0xc4, 0x28, 0x93, 0x82, 0xec, 0xd6, 0xd3, 0x94, 0xf0};
  static const unsigned char cipher15[17] = {0x6c, 0x16, 0x25, 0xdb, 0x46, 0x71,
                                             0x52, 0x2d, 0x3d, 0x75, 0x99, 0x60,
                                             0x1d, 0xe7, 0xca, 0x09, 0xed};
  unsigned char key[32], plain[32];
  memset(key, 0x11, 16);
  memset(key + 16, 0x22, 16);
  memset(plain, 0x44, 32);
  known_answer(key, number(0x3333333333), 32, plain, cipher2);
  for (int i = 0; i < 16; i++) {
    key[i] = (unsigned char)(0xff - i);
    key[16 + i] = (unsigned char)(0xbf - i);
  }
  for (int i = 0; i < 17; i++)
    plain[i] = (unsigned char)i;
  known_answer(key, number(0x123456789a), 17, plain, cipher15);
}

/* One call over many data units is as many calls over one, up to the number 2^128 - 1, which 0
 * follows. */
static void runs_count_modulo_2_to_the_128(void) {
  enum { UNITS = 5, UNIT = 512 };
  static const luxor_number numbers[UNITS] = {{UINT64_MAX - 2, UINT64_MAX},
                                              {UINT64_MAX, UINT64_MAX},
                                              {1, 0},
                                              {3, 0},
                                              {5, 0}};
  static unsigned char plain[UNITS * UNIT], run[UNITS * UNIT], unit[UNIT];
  luxor_xts *xts = key_of_test();
  luxor_error *error;
  SUCCEEDS(luxor_xts_encrypt(xts, plain, run, sizeof run, UNIT, numbers[0], 2, &error));
  for (int i = 0; i < UNITS; i++) {
    SUCCEEDS(luxor_xts_encrypt(xts, plain, unit, UNIT, UNIT, numbers[i], 0, &error));
    CHECK(memcmp(unit, run + i * UNIT, UNIT) == 0);
  }
  luxor_xts_free(xts);
}

/* A call that several threads share gives the same as calls of one thread. */
static void long_calls_use_several_threads(void) {
  enum { LEN = 1 << 20, UNIT = 4096 };
  unsigned char *long_call = calloc(1, LEN), *short_calls = calloc(1, LEN);
  luxor_xts *xts = key_of_test();
  luxor_error *error;
  CHECK(long_call != NULL && short_calls != NULL);
  SUCCEEDS(luxor_xts_encrypt(xts, long_call, long_call, LEN, UNIT, number(0), 8, &error));
  for (size_t at = 0; at < LEN; at += UNIT)
    SUCCEEDS(luxor_xts_encrypt(xts, short_calls + at, short_calls + at, UNIT, UNIT,
                               number(at / 512), 8, &error));
  CHECK(memcmp(long_call, short_calls, LEN) == 0);
  luxor_xts_free(xts);
  free(long_call);
  free(short_calls);
}

int main(void) {
  known_answers();
  runs_count_modulo_2_to_the_128();
  long_calls_use_several_threads();
  CHECK(strchr(luxor_version(), '.') != NULL);
  puts("xts: passed");
  return 0;
}
