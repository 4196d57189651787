// SPDX-License-Identifier: MIT OR Apache-2.0
/* Every invalid argument has a code and a message, and changes nothing. */

#include "check.h"

static void keys(void) {
  unsigned char key[65] = {0};
  luxor_xts *xts = (luxor_xts *)key;
  luxor_error *error;
  luxor_options *options;

  for (size_t len = 0; len <= sizeof key; len++) {
    key[0] = 1;
    if (len != 32 && len != 64)
      EXPECT(LUXOR_INVALID_ARGUMENT, "32 or 64", luxor_xts_new(key, len, NULL, &xts, &error));
    CHECK(len == 32 || len == 64 || xts == NULL);
  }
  key[0] = 0;
  EXPECT(LUXOR_INVALID_ARGUMENT, "equal", luxor_xts_new(key, 32, NULL, &xts, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "equal", luxor_xts_new(key, 64, NULL, &xts, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "key is NULL", luxor_xts_new(NULL, 64, NULL, &xts, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "xts is NULL", luxor_xts_new(key, 64, NULL, NULL, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "address space", luxor_xts_new(key, SIZE_MAX, NULL, &xts, &error));
  CHECK(luxor_xts_new(key, 64, NULL, &xts, NULL) == LUXOR_INVALID_ARGUMENT);

  SUCCEEDS(luxor_options_new(&options, &error));
  SUCCEEDS(luxor_options_set_engine(options, "steam", &error));
  key[0] = 1;
  EXPECT(LUXOR_FAILURE, "steam", luxor_xts_new(key, 64, options, &xts, &error));
  CHECK(xts == NULL);
  EXPECT(LUXOR_INVALID_ARGUMENT, "engine is NULL",
         luxor_options_set_engine(options, NULL, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "at most 65535",
         luxor_options_set_threads(options, SIZE_MAX, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "options is NULL", luxor_options_set_threads(NULL, 1, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "options is NULL", luxor_options_new(NULL, &error));
  luxor_options_free(options);
}

static void buffers(void) {
  unsigned char bytes[1024], before[1024];
  luxor_xts *xts = key_of_test();
  luxor_error *error;
  memset(bytes, 7, sizeof bytes);
  memcpy(before, bytes, sizeof bytes);

#define REFUSES(words, input, output, len, unit)                                                   \
  EXPECT(LUXOR_INVALID_ARGUMENT, words,                                                            \
         luxor_xts_encrypt(xts, input, output, len, unit, number(0), 1, &error));                  \
  EXPECT(LUXOR_INVALID_ARGUMENT, words,                                                            \
         luxor_xts_decrypt(xts, input, output, len, unit, number(0), 1, &error));                  \
  CHECK(memcmp(bytes, before, sizeof bytes) == 0)

  REFUSES("overlap", bytes, bytes + 1, 512, 512);
  REFUSES("overlap", bytes + 511, bytes, 512, 512);
  REFUSES("input is NULL", NULL, bytes, 512, 512);
  REFUSES("output is NULL", bytes, NULL, 512, 512);
  REFUSES("output is NULL", NULL, NULL, 512, 512);
  REFUSES("not a whole number of data units", bytes, bytes, 513, 512);
  REFUSES("not a whole number of data units", bytes, bytes, 511, 512);
  REFUSES("16 bytes or more, not 0", bytes, bytes, 512, 0);
  REFUSES("16 bytes or more, not 0", NULL, NULL, 0, 0);
  REFUSES("16777217 bytes", bytes, bytes, 0, (1 << 24) + 1);
  REFUSES("16 bytes or more, not 15", bytes, bytes, 15, 15);
  REFUSES("address space", bytes, bytes, SIZE_MAX, 512);
#undef REFUSES

  EXPECT(LUXOR_INVALID_ARGUMENT, "xts is NULL",
         luxor_xts_encrypt(NULL, bytes, bytes, 512, 512, number(0), 1, &error));
  SUCCEEDS(luxor_xts_encrypt(xts, NULL, NULL, 0, 512, number(0), 1, &error));
  SUCCEEDS(luxor_xts_encrypt(xts, bytes, NULL, 0, 512, number(0), 1, &error));
  CHECK(memcmp(bytes, before, sizeof bytes) == 0);
  /* Neighbours do not overlap. */
  SUCCEEDS(luxor_xts_encrypt(xts, bytes, bytes + 512, 512, 512, number(0), 1, &error));
  CHECK(memcmp(bytes, before, 512) == 0);
  luxor_xts_free(xts);
}

static void volumes(void) {
  luxor_volume *volume;
  luxor_error *error;
  uint64_t size;
  unsigned char byte;
  EXPECT(LUXOR_INVALID_ARGUMENT, "path is NULL",
         luxor_volume_open(NULL, LUXOR_READ_ONLY, NULL, &volume, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "volume is NULL",
         luxor_volume_open("/dev/null", LUXOR_READ_ONLY, NULL, NULL, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "access cannot be 2",
         luxor_volume_open("/dev/null", 2, NULL, &volume, &error));
  EXPECT(LUXOR_MISSING, "/no/such/volume",
         luxor_volume_open("/no/such/volume", LUXOR_READ_ONLY, NULL, &volume, &error));
  EXPECT(LUXOR_MISSING, "./- does not exist",
         luxor_volume_open("-", LUXOR_READ_ONLY, NULL, &volume, &error));
  EXPECT(LUXOR_FAILURE, "/dev/null",
         luxor_volume_open("/dev/null", LUXOR_READ_ONLY, NULL, &volume, &error));
  CHECK(volume == NULL);
  EXPECT(LUXOR_INVALID_ARGUMENT, "volume is NULL", luxor_volume_unlock(NULL, "", 0, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "volume is NULL", luxor_volume_size(NULL, &size, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "volume is NULL", luxor_volume_read_at(NULL, &byte, 1, 0, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "volume is NULL",
         luxor_volume_write_at(NULL, &byte, 1, 0, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "volume is NULL", luxor_volume_flush(NULL, &error));
}

static void null_is_freed_and_described(void) {
  luxor_error_free(NULL);
  luxor_options_free(NULL);
  luxor_xts_free(NULL);
  luxor_volume_close(NULL);
  CHECK(strcmp(luxor_error_message(NULL), "") == 0);
  CHECK(luxor_error_hint(NULL) == NULL);
  CHECK(luxor_error_units_done(NULL) == 0);
}

int main(void) {
  keys();
  buffers();
  volumes();
  null_is_freed_and_described();
  puts("arguments: passed");
  return 0;
}
