// SPDX-License-Identifier: MIT OR Apache-2.0
/* A volume that cryptsetup made is opened, unlocked, read, written and closed. The first
 * argument is the volume. */

#include "check.h"

static const char *path;

static luxor_volume *open_volume(uint32_t access) {
  luxor_options *options = options_of_test();
  luxor_volume *volume;
  luxor_error *error;
  SUCCEEDS(luxor_volume_open(path, access, options, &volume, &error));
  luxor_options_free(options);
  return volume;
}

static luxor_volume *unlocked_volume(uint32_t access) {
  luxor_volume *volume = open_volume(access);
  luxor_error *error;
  SUCCEEDS(luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  return volume;
}

static void a_wrong_secret_can_be_corrected(void) {
  luxor_volume *volume = open_volume(LUXOR_READ_ONLY);
  luxor_error *error;
  unsigned char byte = 7;
  uint64_t size;
  EXPECT(LUXOR_INVALID_ARGUMENT, "call luxor_volume_unlock first",
         luxor_volume_read_at(volume, &byte, 1, 0, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "secret is NULL", luxor_volume_unlock(volume, NULL, 1, &error));
  EXPECT(LUXOR_NO_KEY, path, luxor_volume_unlock(volume, "wrong", 5, &error));
  EXPECT(LUXOR_NO_KEY, path, luxor_volume_unlock(volume, NULL, 0, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "call luxor_volume_unlock first",
         luxor_volume_size(volume, &size, &error));
  SUCCEEDS(luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "already unlocked",
         luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  luxor_volume_close(volume);
}

/* The volume was made with a volume key of the bytes 0 to 31. */
static void a_volume_key_needs_no_keyslot(void) {
  luxor_volume *volume = open_volume(LUXOR_READ_ONLY);
  luxor_error *error;
  unsigned char key[32], longer[64] = {0};
  uint64_t size;
  for (size_t i = 0; i < sizeof key; i++)
    longer[i] = key[i] = (unsigned char)i;
  EXPECT(LUXOR_NO_KEY, "16 bytes, not 32",
         luxor_volume_unlock_with_volume_key(volume, key, 16, &error));
  /* The digest in the header cannot tell a key from the same key with zeros behind it. */
  EXPECT(LUXOR_NO_KEY, "64 bytes, not 32",
         luxor_volume_unlock_with_volume_key(volume, longer, sizeof longer, &error));
  key[0] ^= 1;
  EXPECT(LUXOR_NO_KEY, "not the volume key",
         luxor_volume_unlock_with_volume_key(volume, key, sizeof key, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "key is NULL",
         luxor_volume_unlock_with_volume_key(volume, NULL, 32, &error));
  key[0] ^= 1;
  SUCCEEDS(luxor_volume_unlock_with_volume_key(volume, key, sizeof key, &error));
  SUCCEEDS(luxor_volume_size(volume, &size, &error));
  luxor_volume_close(volume);
}

static void writes_are_read_again(void) {
  static const char text[] = "across two sectors";
  luxor_volume *volume = unlocked_volume(LUXOR_READ_WRITE), *second;
  luxor_error *error;
  size_t sector;
  uint64_t size;
  char found[sizeof text];
  SUCCEEDS(luxor_volume_sector_size(volume, &sector, &error));
  SUCCEEDS(luxor_volume_size(volume, &size, &error));
  CHECK(sector >= 512 && size >= 2 * sector && size % sector == 0);
  EXPECT(LUXOR_INVALID_ARGUMENT, "size is NULL", luxor_volume_size(volume, NULL, &error));

  uint64_t across = sector - 5;
  SUCCEEDS(luxor_volume_write_at(volume, text, sizeof text, across, &error));
  SUCCEEDS(luxor_volume_write_at(volume, text, sizeof text, size - sizeof text, &error));
  SUCCEEDS(luxor_volume_write_at(volume, NULL, 0, size, &error));
  SUCCEEDS(luxor_volume_flush(volume, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "beyond the volume",
         luxor_volume_write_at(volume, text, 2, size - 1, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "beyond the volume",
         luxor_volume_read_at(volume, found, 2, UINT64_MAX, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "buffer is NULL",
         luxor_volume_read_at(volume, NULL, 1, 0, &error));
  EXPECT(LUXOR_BUSY, path, luxor_volume_open(path, LUXOR_READ_ONLY, NULL, &second, &error));
  luxor_volume_close(volume);

  volume = unlocked_volume(LUXOR_READ_ONLY);
  SUCCEEDS(luxor_volume_read_at(volume, found, sizeof found, across, &error));
  CHECK(memcmp(found, text, sizeof text) == 0);
  SUCCEEDS(luxor_volume_read_at(volume, found, sizeof found, size - sizeof found, &error));
  CHECK(memcmp(found, text, sizeof text) == 0);
  EXPECT(LUXOR_INVALID_ARGUMENT, "reading only",
         luxor_volume_write_at(volume, text, 1, 0, &error));
  luxor_volume_close(volume);
}

static void count(void *data, const char *message) {
  CHECK(strstr(message, path) != NULL);
  ++*(int *)data;
}

/* Damages the second copy of the LUKS2 metadata, at its magic number. cryptsetup repairs it. */
static void damage_is_a_warning(void) {
  luxor_options *options = options_of_test();
  luxor_volume *volume;
  luxor_error *error;
  int warnings = 0;
  FILE *file = fopen(path, "r+b");
  CHECK(file != NULL && fseek(file, 0x4000, SEEK_SET) == 0 && fputc('?', file) == '?');
  CHECK(fclose(file) == 0);
  SUCCEEDS(luxor_options_set_warning(options, count, &warnings, &error));
  SUCCEEDS(luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  CHECK(warnings == 1);
  luxor_volume_close(volume);
  luxor_options_free(options);
}

static void options_of_volumes(void) {
  luxor_options *options = options_of_test();
  luxor_volume *volume;
  luxor_error *error;
  SUCCEEDS(luxor_options_set_keyslot(options, 5, &error));
  SUCCEEDS(luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  EXPECT(LUXOR_FAILURE, "no keyslot 5",
         luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  luxor_volume_close(volume);
  SUCCEEDS(luxor_options_set_header(options, "/no/such/header", &error));
  EXPECT(LUXOR_MISSING, "/no/such/header",
         luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_options_set_header(options, "-", &error));
  EXPECT(LUXOR_MISSING, "./- does not exist",
         luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_options_set_header(options, NULL, &error));
  SUCCEEDS(luxor_options_set_engine(options, "steam", &error));
  SUCCEEDS(luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  EXPECT(LUXOR_FAILURE, "steam",
         luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  luxor_volume_close(volume);
  luxor_options_free(options);
}

/* A copy of the header opens the volume when the header in the volume is lost. */
static void a_header_can_be_in_another_file(void) {
  enum { HEADER = 16 << 20 };
  char name[4096], *bytes = malloc(HEADER);
  snprintf(name, sizeof name, "%s.header", path);
  FILE *file = fopen(path, "r+b"), *header = fopen(name, "wb");
  CHECK(bytes != NULL && file != NULL && header != NULL);
  CHECK(fread(bytes, 1, HEADER, file) == HEADER && fwrite(bytes, 1, HEADER, header) == HEADER);
  CHECK(fclose(header) == 0);
  char *zeros = calloc(1, 0x8000);
  CHECK(zeros != NULL && fseek(file, 0, SEEK_SET) == 0);
  CHECK(fwrite(zeros, 1, 0x8000, file) == 0x8000 && fflush(file) == 0);

  luxor_options *options = options_of_test();
  luxor_volume *volume;
  luxor_error *error;
  size_t sector;
  char found[8];
  EXPECT(LUXOR_FAILURE, "not a LUKS volume",
         luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_options_set_header(options, name, &error));
  SUCCEEDS(luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
  SUCCEEDS(luxor_volume_sector_size(volume, &sector, &error));
  SUCCEEDS(luxor_volume_read_at(volume, found, 6, sector - 5, &error));
  CHECK(memcmp(found, "across", 6) == 0);
  luxor_volume_close(volume);
  luxor_options_free(options);

  CHECK(fseek(file, 0, SEEK_SET) == 0 && fwrite(bytes, 1, 0x8000, file) == 0x8000);
  CHECK(fclose(file) == 0);
  free(bytes);
  free(zeros);
}

/* A disk whose partition 2 is the volume, 1 MiB after its beginning. */
static void a_volume_can_be_a_part_of_a_disk(void) {
  enum { BEGIN = 1 << 20, ENTRY = 446 + 16 };
  char name[4096];
  snprintf(name, sizeof name, "%s.disk", path);
  FILE *file = fopen(path, "rb"), *disk = fopen(name, "wb");
  CHECK(file != NULL && disk != NULL && fseek(file, 0, SEEK_END) == 0);
  size_t len = (size_t)ftell(file);
  unsigned char *bytes = calloc(1, BEGIN + len);
  CHECK(bytes != NULL && fseek(file, 0, SEEK_SET) == 0);
  CHECK(fread(bytes + BEGIN, 1, len, file) == len && fclose(file) == 0);
  bytes[510] = 0x55;
  bytes[511] = 0xaa;
  bytes[ENTRY + 4] = 0x83;
  for (int i = 0; i < 4; i++) {
    bytes[ENTRY + 8 + i] = (unsigned char)(BEGIN / 512 >> 8 * i);
    bytes[ENTRY + 12 + i] = (unsigned char)(len / 512 >> 8 * i);
  }
  CHECK(fwrite(bytes, 1, BEGIN + len, disk) == BEGIN + len && fclose(disk) == 0);
  free(bytes);

  luxor_options *options = options_of_test();
  luxor_volume *volume;
  luxor_error *error;
  size_t sector;
  uint64_t size, whole;
  char found[8];
  volume = unlocked_volume(LUXOR_READ_ONLY);
  SUCCEEDS(luxor_volume_size(volume, &whole, &error));
  luxor_volume_close(volume);
  /* The hint names the function that the next lines call. */
  CHECK(luxor_volume_open(name, LUXOR_READ_ONLY, options, &volume, &error) == LUXOR_FAILURE);
  CHECK(strstr(luxor_error_message(error), "not a LUKS volume") != NULL);
  CHECK(strstr(luxor_error_hint(error), "luxor_options_set_volume_partition with 2") != NULL);
  luxor_error_free(error);
  error = NULL;
  for (int by_partition = 0; by_partition < 2; by_partition++) {
    /* The other one is replaced. */
    SUCCEEDS(by_partition ? luxor_options_set_volume_offset(options, 4096, &error)
                          : luxor_options_set_volume_partition(options, 3, &error));
    SUCCEEDS(by_partition ? luxor_options_set_volume_partition(options, 2, &error)
                          : luxor_options_set_volume_offset(options, BEGIN, &error));
    SUCCEEDS(luxor_volume_open(name, LUXOR_READ_WRITE, options, &volume, &error));
    SUCCEEDS(luxor_volume_unlock(volume, PASSPHRASE, strlen(PASSPHRASE), &error));
    SUCCEEDS(luxor_volume_size(volume, &size, &error));
    CHECK(size == whole);
    SUCCEEDS(luxor_volume_sector_size(volume, &sector, &error));
    SUCCEEDS(luxor_volume_read_at(volume, found, 6, sector - 5, &error));
    CHECK(memcmp(found, "across", 6) == 0);
    SUCCEEDS(luxor_volume_write_at(volume, "again", 5, size - 5, &error));
    SUCCEEDS(luxor_volume_flush(volume, &error));
    luxor_volume_close(volume);
  }
  SUCCEEDS(luxor_options_set_volume_partition(options, 4, &error));
  EXPECT(LUXOR_FAILURE, "no partition 4",
         luxor_volume_open(name, LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_options_set_volume_offset(options, 1000, &error));
  EXPECT(LUXOR_FAILURE, "multiple of 512",
         luxor_volume_open(name, LUXOR_READ_ONLY, options, &volume, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "options is NULL",
         luxor_options_set_volume_offset(NULL, 0, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "options is NULL",
         luxor_options_set_volume_partition(NULL, 1, &error));
  luxor_options_free(options);
  CHECK(remove(name) == 0);
}

/* The metadata change between opening and unlocking: there is no disk then, and nothing is locked. */
static void a_volume_that_changes_is_not_unlocked(void) {
  luxor_volume *volume = open_volume(LUXOR_READ_WRITE), *second;
  luxor_error *error;
  unsigned char key[32];
  char header[0x8000];
  for (size_t i = 0; i < sizeof key; i++)
    key[i] = (unsigned char)i;
  FILE *file = fopen(path, "r+b");
  CHECK(file != NULL && fread(header, 1, sizeof header, file) == sizeof header);
  char *zeros = calloc(1, sizeof header);
  CHECK(zeros != NULL && fseek(file, 0, SEEK_SET) == 0);
  CHECK(fwrite(zeros, 1, sizeof header, file) == sizeof header && fflush(file) == 0);
  EXPECT(LUXOR_FAILURE, path,
         luxor_volume_unlock_with_volume_key(volume, key, sizeof key, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "close it and open it again",
         luxor_volume_unlock_with_volume_key(volume, key, sizeof key, &error));
  CHECK(fseek(file, 0, SEEK_SET) == 0);
  CHECK(fwrite(header, 1, sizeof header, file) == sizeof header && fclose(file) == 0);
  free(zeros);
  SUCCEEDS(luxor_volume_open(path, LUXOR_READ_WRITE, NULL, &second, &error));
  luxor_volume_close(second);
  luxor_volume_close(volume);
}

static void a_format_can_be_required(void) {
  luxor_options *options = options_of_test();
  luxor_volume *volume;
  luxor_error *error;
  static const char *const formats[] = {"luks", "luks2", "auto"};
  EXPECT(LUXOR_INVALID_ARGUMENT, "use one of auto, luks, luks1, luks2, plain",
         luxor_options_set_format(options, "luks3", &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "format is NULL",
         luxor_options_set_format(options, NULL, &error));
  SUCCEEDS(luxor_options_set_format(options, "luks1", &error));
  EXPECT(LUXOR_FAILURE, "a LUKS2 volume, not LUKS1",
         luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    SUCCEEDS(luxor_options_set_format(options, formats[i], &error));
    SUCCEEDS(luxor_volume_open(path, LUXOR_READ_ONLY, options, &volume, &error));
    luxor_volume_close(volume);
  }
  luxor_options_free(options);
}

/* A plain volume of 4 sectors of 4096 bytes, after 4096 other bytes and before 4096 others. Its sectors
 * have the numbers 24, 32, 40, 48. */
static void a_plain_volume_has_no_header(void) {
  enum { SECTOR = 4096, SIZE = 4 * SECTOR };
  static unsigned char plain[SIZE], stored[SECTOR + SIZE + SECTOR], found[SIZE];
  unsigned char key[64], equal[64] = {0};
  char name[4096];
  luxor_options *options = options_of_test();
  luxor_xts *xts = key_of_test();
  luxor_volume *volume;
  luxor_error *error;
  uint64_t size;
  size_t sector;
  for (size_t i = 0; i < sizeof key; i++)
    key[i] = (unsigned char)i;
  for (size_t i = 0; i < sizeof plain; i++)
    plain[i] = (unsigned char)(i * 7 + i / 256);
  memset(stored, 0xee, sizeof stored);
  SUCCEEDS(luxor_xts_encrypt(xts, plain, stored + SECTOR, SIZE, SECTOR, number(24), 8, &error));
  snprintf(name, sizeof name, "%s.plain", path);
  FILE *file = fopen(name, "w+b");
  CHECK(file != NULL && fwrite(stored, 1, sizeof stored, file) == sizeof stored);
  CHECK(fflush(file) == 0);

  SUCCEEDS(luxor_options_set_format(options, "plain", &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "use one of aes-xts-plain64",
         luxor_options_set_plain_cipher(options, "aes", 256, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "cipher is NULL",
         luxor_options_set_plain_cipher(options, NULL, 256, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "513",
         luxor_options_set_plain_sector_size(options, 513, 0, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "options is NULL", luxor_options_set_plain_offset(NULL, 0, &error));
  SUCCEEDS(luxor_options_set_plain_cipher(options, "aes-xts-plain64", 128, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "not of 128",
         luxor_volume_open(name, LUXOR_READ_WRITE, options, &volume, &error));
  SUCCEEDS(luxor_options_set_plain_cipher(options, "aes-xts-plain64", 512, &error));
  SUCCEEDS(luxor_options_set_plain_sector_size(options, SECTOR, 0, &error));
  SUCCEEDS(luxor_options_set_plain_offset(options, 3, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "offset 3 is not a whole number of sectors",
         luxor_volume_open(name, LUXOR_READ_WRITE, options, &volume, &error));
  SUCCEEDS(luxor_options_set_plain_offset(options, SECTOR / 512, &error));
  SUCCEEDS(luxor_options_set_plain_skip(options, 24, &error));
  SUCCEEDS(luxor_options_set_plain_size(options, 80, &error));
  EXPECT(LUXOR_FAILURE, "the offset and the size need 45056",
         luxor_volume_open(name, LUXOR_READ_WRITE, options, &volume, &error));
  SUCCEEDS(luxor_options_set_plain_size(options, 0, &error));
  SUCCEEDS(luxor_volume_open(name, LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_volume_unlock(volume, key, sizeof key, &error));
  SUCCEEDS(luxor_volume_size(volume, &size, &error));
  CHECK(size == SIZE + SECTOR);
  luxor_volume_close(volume);

  SUCCEEDS(luxor_options_set_plain_size(options, SIZE / 512, &error));
  SUCCEEDS(luxor_volume_open(name, LUXOR_READ_WRITE, options, &volume, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "the key has 32 bytes; it must have 64",
         luxor_volume_unlock(volume, key, 32, &error));
  EXPECT(LUXOR_INVALID_ARGUMENT, "are equal",
         luxor_volume_unlock_with_volume_key(volume, equal, sizeof equal, &error));
  SUCCEEDS(luxor_volume_unlock_with_volume_key(volume, key, sizeof key, &error));
  SUCCEEDS(luxor_volume_size(volume, &size, &error));
  SUCCEEDS(luxor_volume_sector_size(volume, &sector, &error));
  CHECK(size == SIZE && sector == SECTOR);
  SUCCEEDS(luxor_volume_read_at(volume, found, SIZE, 0, &error));
  CHECK(memcmp(found, plain, SIZE) == 0);
  memcpy(plain + 8190, "across", 6);
  SUCCEEDS(luxor_volume_write_at(volume, "across", 6, 8190, &error));
  SUCCEEDS(luxor_volume_flush(volume, &error));
  luxor_volume_close(volume);
  SUCCEEDS(luxor_xts_encrypt(xts, plain, stored + SECTOR, SIZE, SECTOR, number(24), 8, &error));
  unsigned char *now = malloc(sizeof stored);
  CHECK(now != NULL && fseek(file, 0, SEEK_SET) == 0);
  CHECK(fread(now, 1, sizeof stored, file) == sizeof stored && fgetc(file) == EOF);
  CHECK(memcmp(now, stored, sizeof stored) == 0 && fclose(file) == 0);
  free(now);

  /* With IVs that count sectors, the first one is 24 / 8. */
  SUCCEEDS(luxor_options_set_plain_sector_size(options, SECTOR, 1, &error));
  SUCCEEDS(luxor_volume_open(name, LUXOR_READ_ONLY, options, &volume, &error));
  SUCCEEDS(luxor_volume_unlock(volume, key, sizeof key, &error));
  SUCCEEDS(luxor_volume_read_at(volume, found, SECTOR, 0, &error));
  luxor_volume_close(volume);
  SUCCEEDS(luxor_xts_encrypt(xts, found, found, SECTOR, SECTOR, number(3), 1, &error));
  CHECK(memcmp(found, stored + SECTOR, SECTOR) == 0);
  luxor_xts_free(xts);
  luxor_options_free(options);
  CHECK(remove(name) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  path = argv[1];
  a_wrong_secret_can_be_corrected();
  a_volume_key_needs_no_keyslot();
  writes_are_read_again();
  options_of_volumes();
  a_header_can_be_in_another_file();
  a_volume_can_be_a_part_of_a_disk();
  a_volume_that_changes_is_not_unlocked();
  a_format_can_be_required();
  a_plain_volume_has_no_header();
  damage_is_a_warning();
  puts("volume: passed");
  return 0;
}
