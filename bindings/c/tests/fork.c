// SPDX-License-Identifier: MIT OR Apache-2.0
/* A forked child cannot use the keys of its parent, which still can. Nothing hangs, and nothing is
 * encrypted with zeros. The first argument is a volume. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN = 4 << 20, UNIT = 4096 };

/* Returns a key on a device, which does not notice a fork itself, or NULL where there is none. */
static luxor_xts *key_on_a_device(unsigned char *bytes, unsigned char *output) {
  luxor_options *options = options_of_test();
  luxor_xts *xts;
  luxor_error *error;
  unsigned char key[64] = {1};
  SUCCEEDS(luxor_options_set_engine(options, "opencl", &error));
  if (luxor_xts_new(key, sizeof key, options, &xts, NULL) == LUXOR_OK)
    SUCCEEDS(luxor_xts_encrypt(xts, bytes, output, LEN, UNIT, number(0), 8, &error));
  luxor_options_free(options);
  return xts;
}

/* Returns how many descriptors of this process are the file at `path`. */
static int descriptors_of(const char *path) {
  struct stat wanted, found;
  int count = 0;
  CHECK(stat(path, &wanted) == 0);
  for (int fd = 0; fd < 1024; fd++)
    count += fstat(fd, &found) == 0 && found.st_ino == wanted.st_ino && found.st_dev == wanted.st_dev;
  return count;
}

static void in_the_child(const char *path, luxor_xts *xts, luxor_xts *on_device,
                         luxor_volume *volume, luxor_volume *locked, unsigned char *bytes) {
  luxor_error *error;
  uint64_t size;
  /* So that a call that waits for ever fails the test. */
  alarm(60);
  for (int i = 0; i < 2; i++) {
    size_t len = i == 0 ? UNIT : LEN;
    EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked",
           luxor_xts_encrypt(xts, bytes, bytes, len, UNIT, number(0), 8, &error));
    EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked",
           luxor_xts_decrypt(xts, bytes, bytes, len, UNIT, number(0), 8, &error));
  }
  if (on_device != NULL)
    EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked",
           luxor_xts_encrypt(on_device, bytes, bytes, LEN, UNIT, number(0), 8, &error));
  for (size_t i = 0; i < LEN; i++)
    CHECK(bytes[i] == 7);
  EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked", luxor_volume_size(volume, &size, &error));
  EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked", luxor_volume_read_at(volume, bytes, UNIT, 0, &error));
  EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked", luxor_volume_write_at(volume, bytes, UNIT, 0, &error));
  EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked", luxor_volume_flush(volume, &error));
  EXPECT(LUXOR_KEY_LOST_IN_FORK, "forked", luxor_volume_unlock(locked, "x", 1, &error));
  luxor_xts_free(xts);
  luxor_xts_free(on_device);
  CHECK(descriptors_of(path) > 0);
  luxor_volume_close(volume);
  luxor_volume_close(locked);
  CHECK(descriptors_of(path) == 0);

  xts = key_of_test();
  SUCCEEDS(luxor_xts_encrypt(xts, bytes, bytes, LEN, UNIT, number(0), 8, &error));
  luxor_xts_free(xts);
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  luxor_xts *xts = key_of_test();
  luxor_options *options = options_of_test();
  luxor_volume *volume, *locked;
  luxor_error *error;
  unsigned char *bytes = malloc(LEN), *expected = malloc(LEN);
  CHECK(bytes != NULL && expected != NULL);
  memset(bytes, 7, LEN);
  SUCCEEDS(luxor_volume_open(argv[1], LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  SUCCEEDS(luxor_volume_open(argv[1], LUXOR_READ_ONLY, options, &locked, &error));
  luxor_xts *on_device = key_on_a_device(bytes, expected);
  /* A long call, so that the key has threads. */
  SUCCEEDS(luxor_xts_encrypt(xts, bytes, expected, LEN, UNIT, number(0), 8, &error));

  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    in_the_child(argv[1], xts, on_device, volume, locked, bytes);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);

  SUCCEEDS(luxor_xts_encrypt(xts, bytes, bytes, LEN, UNIT, number(0), 8, &error));
  CHECK(memcmp(bytes, expected, LEN) == 0);
  SUCCEEDS(luxor_volume_read_at(volume, bytes, UNIT, 0, &error));
  /* The child did not release the lock. */
  luxor_volume *second;
  EXPECT(LUXOR_BUSY, argv[1],
         luxor_volume_open(argv[1], LUXOR_READ_WRITE, options, &second, &error));
  luxor_xts_free(xts);
  luxor_xts_free(on_device);

  /* A child that closes nothing does not keep the volume locked. */
  int ends[2];
  CHECK(pipe(ends) == 0);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    close(ends[1]);
    char byte;
    _exit(read(ends[0], &byte, 1) != 0);
  }
  luxor_volume_close(volume);
  luxor_volume_close(locked);
  SUCCEEDS(luxor_volume_open(argv[1], LUXOR_READ_WRITE, options, &second, &error));
  luxor_volume_close(second);
  close(ends[1]);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  luxor_options_free(options);
  free(bytes);
  free(expected);
  puts("fork: passed");
  return 0;
}
