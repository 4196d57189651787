// SPDX-License-Identifier: MIT OR Apache-2.0
/* A volume is read and written in the memory of a GPU. The library libcuda.so.1 may be NVIDIA's, or
 * the emulator of this project. The first argument is the volume. */

#include "check.h"

#include <dlfcn.h>

typedef unsigned long long device_pointer;

/* The functions of the driver that a caller needs. */
static int (*context_set)(void *);
static int (*memory_alloc)(device_pointer *, size_t);
static int (*memory_write)(device_pointer, const void *, size_t, void *);
static int (*memory_read)(void *, device_pointer, size_t, void *);

static void *driver(const char *name) {
  static void *library;
  if (library == NULL)
    library = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(library != NULL);
  void *function = dlsym(library, name);
  CHECK(function != NULL);
  return function;
}

static void find_driver(void) {
  /* The standard of C knows no conversion from objects to functions. */
  *(void **)&context_set = driver("cuCtxSetCurrent");
  *(void **)&memory_alloc = driver("cuMemAlloc_v2");
  *(void **)&memory_write = driver("cuMemcpyHtoDAsync_v2");
  *(void **)&memory_read = driver("cuMemcpyDtoHAsync_v2");
}

static luxor_volume *unlocked(const char *path, uint32_t access, int gpus) {
  luxor_options *options = options_of_test();
  luxor_volume *volume;
  luxor_error *error;
  SUCCEEDS(luxor_options_set_gpus(options, gpus, &error));
  SUCCEEDS(luxor_volume_open(path, access, options, &volume, &error));
  luxor_options_free(options);
  SUCCEEDS(luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  return volume;
}

int main(int argc, char **argv) {
  enum { LEN = 3000, AT = 700 };
  static unsigned char text[LEN], found[LEN], zeros[LEN];
  luxor_error *error;
  CHECK(argc >= 2);
  for (size_t i = 0; i < LEN; i++)
    text[i] = (unsigned char)(i % 251);

  luxor_volume *volume = unlocked(argv[1], LUXOR_READ_WRITE, 1);
  find_driver();
  device_pointer memory;
  /* The emulator's contexts are the numbers of its GPUs, from 1. */
  CHECK(context_set((void *)1) == 0);
  CHECK(memory_alloc(&memory, LEN) == 0);
  CHECK(memory_write(memory, text, LEN, NULL) == 0);
  SUCCEEDS(luxor_volume_write_from_gpu(volume, memory, LEN, AT, NULL, &error));
  SUCCEEDS(luxor_volume_read_at(volume, found, LEN, AT, &error));
  CHECK(memcmp(found, text, LEN) == 0);

  CHECK(memory_write(memory, zeros, LEN, NULL) == 0);
  SUCCEEDS(luxor_volume_read_to_gpu(volume, memory + 5, LEN - 5, AT + 5, NULL, &error));
  CHECK(memory_read(found, memory, LEN, NULL) == 0);
  CHECK(memcmp(found, zeros, 5) == 0 && memcmp(found + 5, text + 5, LEN - 5) == 0);
  SUCCEEDS(luxor_volume_read_to_gpu(volume, 0, 0, 0, NULL, &error));

  uint64_t size;
  SUCCEEDS(luxor_volume_size(volume, &size, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "beyond the volume",
         luxor_volume_read_to_gpu(volume, memory, 2, size - 1, NULL, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "no GPU",
         luxor_volume_read_to_gpu(volume, 16, LEN, 0, NULL, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "the GPU cannot use",
         luxor_volume_read_to_gpu(volume, memory + 1, LEN, 0, NULL, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "volume is NULL",
         luxor_volume_read_to_gpu(NULL, memory, LEN, 0, NULL, &error));
  luxor_volume_close(volume);

  volume = unlocked(argv[1], LUXOR_READ_ONLY, 1);
  EXPECT(LUXOR_INVALID_ARGUMENT, "LUXOR_READ_WRITE",
         luxor_volume_write_from_gpu(volume, memory, LEN, 0, NULL, &error));
  luxor_volume_close(volume);
  volume = unlocked(argv[1], LUXOR_READ_ONLY, 0);
  EXPECT(LUXOR_INVALID_ARGUMENT, "luxor_options_set_gpus",
         luxor_volume_read_to_gpu(volume, memory, LEN, 0, NULL, &error));
  luxor_volume_close(volume);
  return 0;
}
