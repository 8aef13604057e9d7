/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reading and mapping files. Writing is os_write.c, directories os_dir.c. */
#include "base_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_FIRST_BYTES ((size_t)64 << 10) /* of a stream whose length is unknown */

static sn_status file_fault(sn_diag *d, const char *path, const char *doing, int error) {
  return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_IO, "cannot %s: %s", doing, strerror(error));
}

static int file_open(const char *path, int flags) {
  int fd;
  do {
    fd = open(path, flags | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

static sn_status file_map_fd(sn_diag *d, const char *path, int fd, sn_file_map *out) {
  struct stat st;
  if (fstat(fd, &st) != 0) return file_fault(d, path, "map", errno);
  if (S_ISDIR(st.st_mode)) return file_fault(d, path, "map", EISDIR);
  if (!S_ISREG(st.st_mode)) {
    return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_IO, "cannot map: a pipe or device, not a regular file");
  }
  if (st.st_size == 0) return SN_OK;
  if ((uint64_t)st.st_size > (uint64_t)PTRDIFF_MAX) return file_fault(d, path, "map", EFBIG);
  void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED) return file_fault(d, path, "map", errno);
  *out = (sn_file_map){p, (size_t)st.st_size, p};
  return SN_OK;
}

sn_status sn_file_map_open(sn_diag *d, const char *path, sn_file_map *out) {
  static const uint8_t nothing[1];
  *out = (sn_file_map){nothing, 0, NULL};
  int fd = file_open(path, O_RDONLY);
  if (fd < 0) return file_fault(d, path, "open", errno);
  sn_status s = file_map_fd(d, path, fd, out);
  close(fd);
  return s;
}

void sn_file_map_close(sn_file_map *m) {
  if (m == NULL) return;
  if (m->handle != NULL) munmap(m->handle, m->n_bytes);
  *m = (sn_file_map){0};
}

/* One read that a signal does not cut short; negative on failure. */
static ssize_t file_read_some(int fd, char *to, size_t bytes) {
  ssize_t n;
  do {
    n = read(fd, to, bytes);
  } while (n < 0 && errno == EINTR);
  return n;
}

/* The stated length is a first guess: files of /proc state none, others grow while they are read. */
static size_t file_guess(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) return FILE_FIRST_BYTES;
  return (uint64_t)st.st_size < SIZE_MAX / 4 ? (size_t)st.st_size + 2 : FILE_FIRST_BYTES;
}

static sn_status file_read_fd(sn_diag *d, const char *path, int fd, char **out, size_t *n_bytes) {
  size_t cap = file_guess(fd), n = 0;
  char *data = sn_alloc(cap);
  if (data == NULL) return sn_out_of_memory(d, cap);
  for (;;) {
    if (cap - n < 2) {
      char *grown = cap <= SIZE_MAX / 2 ? sn_realloc(data, cap * 2) : NULL;
      if (grown == NULL) {
        sn_free(data);
        return sn_out_of_memory(d, cap);
      }
      data = grown;
      cap *= 2;
    }
    ssize_t got = file_read_some(fd, data + n, cap - n - 1);
    if (got < 0) {
      sn_status s = file_fault(d, path, "read", errno);
      sn_free(data);
      return s;
    }
    if (got == 0) break;
    n += (size_t)got;
  }
  data[n] = '\0';
  *out = data;
  *n_bytes = n;
  return SN_OK;
}

sn_status sn_file_read(sn_diag *d, const char *path, char **out, size_t *n_bytes) {
  *out = NULL;
  *n_bytes = 0;
  if (strcmp(path, "-") == 0) return file_read_fd(d, "<stdin>", STDIN_FILENO, out, n_bytes);
  int fd = file_open(path, O_RDONLY);
  if (fd < 0) return file_fault(d, path, "open", errno);
  sn_status s = file_read_fd(d, path, fd, out, n_bytes);
  close(fd);
  return s;
}

bool sn_file_exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

sn_status sn_file_remove(sn_diag *d, const char *path) {
  if (remove(path) == 0 || errno == ENOENT) return SN_OK;
  return file_fault(d, path, "remove", errno);
}
