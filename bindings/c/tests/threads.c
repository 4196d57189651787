// SPDX-License-Identifier: MIT OR Apache-2.0
/* Several threads use one key and one volume at once, and several unlock it. The first argument is a
 * volume. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 10, BLOCK = 6000 };

static luxor_xts *xts;
static luxor_volume *volume;

/* Writes blocks that share sectors with those of other threads, and reads them again. */
static void *work(void *argument) {
  unsigned char me = *(unsigned char *)argument, plain[4096], bytes[4096];
  unsigned char block[BLOCK], found[BLOCK];
  luxor_error *error;
  luxor_code code = luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error);
  CHECK(code == LUXOR_OK || code == LUXOR_INVALID_ARGUMENT);
  luxor_error_free(error);
  memset(plain, me, sizeof plain);
  for (int round = 0; round < ROUNDS; round++) {
    memset(block, me + round, sizeof block);
    uint64_t offset = (uint64_t)me * BLOCK;
    SUCCEEDS(luxor_volume_write_at(volume, block, BLOCK, offset, &error));
    SUCCEEDS(luxor_volume_read_at(volume, found, BLOCK, offset, &error));
    CHECK(memcmp(found, block, BLOCK) == 0);
    SUCCEEDS(luxor_xts_encrypt(xts, plain, bytes, 4096, 512, number(me), 1, &error));
    SUCCEEDS(luxor_xts_decrypt(xts, bytes, bytes, 4096, 512, number(me), 1, &error));
    CHECK(memcmp(bytes, plain, 4096) == 0);
  }
  SUCCEEDS(luxor_volume_flush(volume, &error));
  return NULL;
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  pthread_t threads[THREADS];
  unsigned char numbers[THREADS];
  luxor_options *options = options_of_test();
  luxor_error *error;
  xts = key_of_test();
  SUCCEEDS(luxor_volume_open(argv[1], LUXOR_READ_WRITE, options, &volume, &error));
  luxor_options_free(options);
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = (unsigned char)i;
    CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  luxor_volume_close(volume);
  luxor_xts_free(xts);
  puts("threads: passed");
  return 0;
}
