// SPDX-License-Identifier: MIT OR Apache-2.0
/* An nbdkit plugin that serves the plaintext of a LUKS volume:
 *
 *     nbdkit ./nbdkit-luxor-plugin.so volume=disk.luks passphrase=+FILE [header=FILE] [readonly=true]
 *
 * nbdkit-plugin(3) describes the callbacks, and nbdkit_read_password(3) the forms of a passphrase.
 */

#define _DEFAULT_SOURCE
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <luxor.h>

/* Luxor reads and writes from any number of threads. */
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static char *path, *header, *passphrase;
static int is_read_only;
static luxor_volume *volume;

/* Reports an error to nbdkit and frees it. Returns what a callback returns: 0 or -1. */
static int result(luxor_code code, luxor_error *error) {
  if (code == LUXOR_OK)
    return 0;
  nbdkit_error("%s", luxor_error_message(error));
  if (luxor_error_hint(error) != NULL)
    nbdkit_error("%s", luxor_error_hint(error));
  luxor_error_free(error);
  nbdkit_set_error(code == LUXOR_OUT_OF_MEMORY ? ENOMEM : EIO);
  return -1;
}

static void forget_passphrase(void) {
  if (passphrase != NULL)
    explicit_bzero(passphrase, strlen(passphrase));
  free(passphrase);
  passphrase = NULL;
}

static int plugin_config(const char *key, const char *value) {
  if (strcmp(key, "volume") == 0)
    return (path = nbdkit_realpath(value)) == NULL ? -1 : 0;
  if (strcmp(key, "header") == 0)
    return (header = nbdkit_realpath(value)) == NULL ? -1 : 0;
  if (strcmp(key, "passphrase") == 0) {
    forget_passphrase();
    return nbdkit_read_password(value, &passphrase);
  }
  if (strcmp(key, "readonly") == 0)
    return (is_read_only = nbdkit_parse_bool(value)) == -1 ? -1 : 0;
  nbdkit_error("unknown parameter: %s", key);
  return -1;
}

static int plugin_config_complete(void) {
  if (path != NULL && passphrase != NULL)
    return 0;
  nbdkit_error("the parameters volume and passphrase are required");
  return -1;
}

static void warn(void *data, const char *message) {
  (void)data;
  nbdkit_error("warning: %s", message);
}

static luxor_code open_volume(const luxor_options *options, luxor_error **error) {
  uint32_t access = is_read_only ? LUXOR_READ_ONLY : LUXOR_READ_WRITE;
  luxor_code code = luxor_volume_open(path, access, options, &volume, error);
  if (code == LUXOR_OK)
    code = luxor_volume_unlock(volume, passphrase, strlen(passphrase), error);
  return code;
}

static int open_and_unlock(void) {
  luxor_options *options;
  luxor_error *error;
  luxor_code code = luxor_options_new(&options, &error);
  if (code == LUXOR_OK)
    code = luxor_options_set_warning(options, warn, NULL, &error);
  if (code == LUXOR_OK)
    code = luxor_options_set_header(options, header, &error);
  if (code == LUXOR_OK)
    code = open_volume(options, &error);
  luxor_options_free(options);
  return result(code, error);
}

static void close_volume(void) {
  luxor_volume_close(volume);
  volume = NULL;
}

/* Before nbdkit forks into the background. A wrong passphrase is found here, where nbdkit can still
 * report it to the user. */
static int plugin_get_ready(void) {
  int opened = open_and_unlock();
  close_volume();
  return opened;
}

/* After nbdkit has forked. The volume is unlocked again, because the system wipes keys in a forked
 * process. */
static int plugin_after_fork(void) {
  int opened = open_and_unlock();
  forget_passphrase();
  return opened;
}

static void plugin_unload(void) {
  close_volume();
  forget_passphrase();
  free(path);
  free(header);
}

/* All connections share the volume. */
static void *plugin_open(int readonly) {
  (void)readonly;
  return volume;
}

static int plugin_can_write(void *handle) {
  (void)handle;
  return !is_read_only;
}

static int64_t plugin_get_size(void *handle) {
  uint64_t size;
  luxor_error *error;
  return result(luxor_volume_size(handle, &size, &error), error) == 0 ? (int64_t)size : -1;
}

static int plugin_pread(void *handle, void *buffer, uint32_t count, uint64_t offset,
                        uint32_t flags) {
  luxor_error *error;
  (void)flags;
  return result(luxor_volume_read_at(handle, buffer, count, offset, &error), error);
}

static int plugin_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset,
                         uint32_t flags) {
  luxor_error *error;
  (void)flags;
  return result(luxor_volume_write_at(handle, buffer, count, offset, &error), error);
}

static int plugin_flush(void *handle, uint32_t flags) {
  luxor_error *error;
  (void)flags;
  return result(luxor_volume_flush(handle, &error), error);
}

/* A flush on one connection makes the writes of all connections durable. */
static int plugin_can_multi_conn(void *handle) {
  (void)handle;
  return 1;
}

static struct nbdkit_plugin plugin = {
    .name = "luxor",
    .description = "serves the plaintext of a LUKS volume",
    .config = plugin_config,
    .config_complete = plugin_config_complete,
    .config_help = "volume=FILE      the volume (required)\n"
                   "passphrase=...   its passphrase (required), see nbdkit_read_password(3)\n"
                   "header=FILE      its detached header\n"
                   "readonly=BOOL    whether to open it for reading only",
    .get_ready = plugin_get_ready,
    .after_fork = plugin_after_fork,
    .unload = plugin_unload,
    .open = plugin_open,
    .can_write = plugin_can_write,
    .get_size = plugin_get_size,
    .pread = plugin_pread,
    .pwrite = plugin_pwrite,
    .flush = plugin_flush,
    .can_multi_conn = plugin_can_multi_conn,
};

NBDKIT_REGISTER_PLUGIN(plugin)
