// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the tests share: a check that ends the program with its place, and expected results. The
 * compiler's command line defines PASSPHRASE, which opens the volume of a test. */

#ifndef CHECK_H
#define CHECK_H

#include <luxor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program unless `condition` holds. */
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)

static inline void check(int holds, const char *condition, const char *file, int line) {
  if (!holds) {
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, condition);
    exit(1);
  }
}

/* Checks the result of `call`, which sets `error`. A failure has `words` in its message, and a
 * success no error. Frees the error. */
#define EXPECT(code, words, call) expect((code), (words), (call), &error, #call, __FILE__, __LINE__)
#define SUCCEEDS(call) EXPECT(LUXOR_OK, "", call)

static inline void expect(luxor_code wanted, const char *words, luxor_code found,
                          luxor_error **error, const char *call, const char *file, int line) {
  const char *message = luxor_error_message(*error);
  int is_consistent = (found == LUXOR_OK) == (*error == NULL);
  if (found != wanted || strstr(message, words) == NULL || !is_consistent) {
    fprintf(stderr, "%s:%d: %s\n  returned %d: %s\n  expected %d: ...%s...\n", file, line, call,
            (int)found, message, (int)wanted, words);
    exit(1);
  }
  luxor_error_free(*error);
  *error = NULL;
}

static inline luxor_number number(uint64_t low) {
  luxor_number number = {low, 0};
  return number;
}

/* Returns options with the engine that the environment names, so that the tests can run with an
 * engine whose instructions valgrind knows. */
static inline luxor_options *options_of_test(void) {
  luxor_options *options;
  luxor_error *error;
  const char *engine = getenv("LUXOR_TEST_ENGINE");
  SUCCEEDS(luxor_options_new(&options, &error));
  SUCCEEDS(luxor_options_set_engine(options, engine != NULL ? engine : "auto", &error));
  SUCCEEDS(luxor_options_set_threads(options, 2, &error));
  return options;
}

/* Returns an XTS-AES-256 key for tests. */
static inline luxor_xts *key_of_test(void) {
  unsigned char key[64];
  luxor_options *options = options_of_test();
  luxor_xts *xts;
  luxor_error *error;
  for (size_t i = 0; i < sizeof key; i++)
    key[i] = (unsigned char)i;
  SUCCEEDS(luxor_xts_new(key, sizeof key, options, &xts, &error));
  luxor_options_free(options);
  return xts;
}

#endif
