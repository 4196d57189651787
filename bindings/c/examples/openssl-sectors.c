// SPDX-License-Identifier: MIT OR Apache-2.0
/* Replaces a loop that encrypts sectors with OpenSSL, one call for each sector, by one call of
 * Luxor. Both encrypt 4 MiB as dm-crypt would with "aes-xts-plain64"; the program compares the
 * results and prints both speeds.
 *
 *     cc openssl-sectors.c $(pkg-config --cflags --libs luxor libcrypto) && ./a.out */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <luxor.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

enum { KEY = 64, SECTOR = 512, LEN = 4 << 20 };

/* Before: encrypts `len` bytes, whole sectors, of which the first one has the number `first`.
 * Returns whether it succeeded. */
static int encrypt_with_openssl(const unsigned char key[KEY], const unsigned char *plain,
                                unsigned char *cipher, size_t len, uint64_t first) {
  EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
  int succeeded = context != NULL;
  succeeded = succeeded && EVP_EncryptInit_ex(context, EVP_aes_256_xts(), NULL, key, NULL);
  for (size_t at = 0; succeeded && at < len; at += SECTOR) {
    unsigned char tweak[16] = {0};
    int written;
    for (int i = 0; i < 8; i++)
      tweak[i] = (unsigned char)((first + at / SECTOR) >> 8 * i);
    succeeded = EVP_EncryptInit_ex(context, NULL, NULL, NULL, tweak) &&
                EVP_EncryptUpdate(context, cipher + at, &written, plain + at, SECTOR);
  }
  EVP_CIPHER_CTX_free(context);
  return succeeded;
}

/* After: the same with Luxor. A program that encrypts often keeps the key. */
static luxor_code encrypt_with_luxor(const unsigned char key[KEY], const unsigned char *plain,
                                     unsigned char *cipher, size_t len, uint64_t first,
                                     luxor_error **error) {
  luxor_number number = {first, 0};
  luxor_xts *xts;
  luxor_code code = luxor_xts_new(key, KEY, NULL, &xts, error);
  if (code == LUXOR_OK)
    code = luxor_xts_encrypt(xts, plain, cipher, len, SECTOR, number, 1, error);
  luxor_xts_free(xts);
  return code;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(void) {
  unsigned char key[KEY], *plain = malloc(LEN), *before = malloc(LEN), *after = malloc(LEN);
  uint64_t first = UINT64_C(1) << 40;
  luxor_error *error = NULL;
  if (plain == NULL || before == NULL || after == NULL || RAND_bytes(key, KEY) != 1 ||
      RAND_bytes(plain, LEN) != 1) {
    fputs("there is not enough memory, or there are no random numbers\n", stderr);
    return 1;
  }
  /* The system gives a program its memory at the first write, which takes time of its own. */
  memset(before, 1, LEN);
  memset(after, 2, LEN);

  double begun = now();
  if (!encrypt_with_openssl(key, plain, before, LEN, first)) {
    fputs("OpenSSL failed\n", stderr);
    return 1;
  }
  double openssl = now() - begun;
  begun = now();
  if (encrypt_with_luxor(key, plain, after, LEN, first, &error) != LUXOR_OK) {
    fprintf(stderr, "%s\n", luxor_error_message(error));
    luxor_error_free(error);
    return 1;
  }
  double luxor = now() - begun;
  if (memcmp(before, after, LEN) != 0) {
    fputs("the results differ\n", stderr);
    return 1;
  }
  printf("OpenSSL %.2f GB/s\nLuxor   %.2f GB/s\n", LEN / openssl / 1e9, LEN / luxor / 1e9);
  puts("the results are equal");
  free(plain);
  free(before);
  free(after);
  return 0;
}
