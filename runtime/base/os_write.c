/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Writing a file whole or not at all: a temporary beside it, fsync, rename, fsync of the directory. */
#include "base_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WRITE_TRIES 100

typedef struct write_target {
  const char *shown; /* the caller's path, for messages */
  char *path;        /* behind symbolic links; malloc's, from realpath */
  char *temporary;   /* NULL: written in place (a device or pipe) */
  FILE *to;
} write_target;

static sn_status write_fault(sn_diag *d, const write_target *w, const char *doing, int error) {
  return sn_error(d, (sn_loc){w->shown, 0, 0}, SN_ERR_IO, "cannot %s: %s", doing, strerror(error));
}

/* Length of the directory part with its slash; 0: the current directory. */
static size_t write_dir_bytes(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

/* Creates a file with a name that nobody has; the umask decides its mode. */
static int write_open_temporary(write_target *w) {
  struct timespec now;
  size_t dir = write_dir_bytes(w->path), room = dir + 64;
  w->temporary = sn_alloc(room);
  if (w->temporary == NULL) {
    errno = ENOMEM;
    return -1;
  }
  for (int i = 0; i < WRITE_TRIES; i++) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(w->temporary, room, "%.*s.sinter-%ld-%09ld-%d.tmp", (int)dir, w->path, (long)getpid(), now.tv_nsec, i);
    int fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    if (errno != EEXIST && errno != EINTR) break;
  }
  int error = errno;
  sn_free(w->temporary);
  w->temporary = NULL;
  errno = error;
  return -1;
}

/* An existing regular file is replaced and keeps its mode; anything else that exists is written in place. */
static int write_open_fd(write_target *w) {
  struct stat st;
  bool exists = stat(w->path, &st) == 0;
  if (exists && S_ISDIR(st.st_mode)) {
    errno = EISDIR;
    return -1;
  }
  if (exists && !S_ISREG(st.st_mode)) return open(w->path, O_WRONLY | O_CLOEXEC);
  int fd = write_open_temporary(w);
  if (fd >= 0 && exists) (void)!fchmod(fd, st.st_mode & 07777); /* another owner's file: the new one is ours */
  return fd;
}

static void write_finish(write_target *w) {
  if (w->to != NULL) fclose(w->to);
  if (w->temporary != NULL) unlink(w->temporary);
  sn_free(w->temporary);
  free(w->path);
}

static sn_status write_open(sn_diag *d, const char *path, write_target *w) {
  *w = (write_target){.shown = path};
  w->path = realpath(path, NULL);
  if (w->path == NULL && errno == ENOENT) w->path = strdup(path);
  if (w->path == NULL) return write_fault(d, w, "open for writing", errno);
  int fd = write_open_fd(w);
  if (fd < 0) return write_fault(d, w, "open for writing", errno);
  w->to = fdopen(fd, "wb");
  if (w->to != NULL) return SN_OK;
  int error = errno;
  close(fd);
  return write_fault(d, w, "open for writing", error);
}

/* Some file systems cannot sync; then their own order of writes is all there is. */
static bool write_sync(int fd) {
  return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

static bool write_sync_dir(const char *path) {
  size_t n = write_dir_bytes(path);
  char *dir = n != 0 ? sn_alloc(n + 1) : NULL;
  if (dir != NULL) {
    memcpy(dir, path, n);
    dir[n] = '\0';
  }
  int fd = n != 0 && dir == NULL ? -1 : open(dir != NULL ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  sn_free(dir);
  if (fd < 0) return true; /* the content is whole; a directory that cannot be opened cannot be synced */
  bool ok = write_sync(fd);
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

static sn_status write_commit(sn_diag *d, write_target *w) {
  bool ok = fflush(w->to) == 0 && !ferror(w->to);
  if (ok && w->temporary != NULL) ok = write_sync(fileno(w->to));
  int error = errno;
  FILE *to = w->to;
  w->to = NULL;
  if (fclose(to) != 0 && ok) {
    ok = false;
    error = errno;
  }
  if (!ok) return write_fault(d, w, "write", error);
  if (w->temporary == NULL) return SN_OK;
  if (rename(w->temporary, w->path) != 0) return write_fault(d, w, "rename the finished file", errno);
  sn_free(w->temporary);
  w->temporary = NULL;
  return write_sync_dir(w->path) ? SN_OK : write_fault(d, w, "sync the directory", errno);
}

/* A writer that says SN_ERR_IO saw its stream fail and left errno; other faults it reported itself. */
static sn_status write_call(sn_diag *d, const write_target *w, sn_file_writer fn, void *ctx) {
  errno = 0;
  sn_status s = fn(ctx, w->to);
  int error = errno != 0 ? errno : EIO;
  if (s == SN_ERR_IO || (s == SN_OK && ferror(w->to))) return write_fault(d, w, "write", error);
  return s;
}

static sn_status write_stdout(sn_diag *d, sn_file_writer fn, void *ctx) {
  write_target w = {.shown = "<stdout>", .to = stdout};
  SN_TRY(write_call(d, &w, fn, ctx));
  return fflush(stdout) == 0 ? SN_OK : write_fault(d, &w, "write", errno);
}

sn_status sn_file_write_with(sn_diag *d, const char *path, sn_file_writer fn, void *ctx) {
  if (strcmp(path, "-") == 0) return write_stdout(d, fn, ctx);
  write_target w;
  sn_status s = write_open(d, path, &w);
  if (s == SN_OK) s = write_call(d, &w, fn, ctx);
  if (s == SN_OK) s = write_commit(d, &w);
  write_finish(&w);
  return s;
}

typedef struct write_piece {
  const void *data;
  size_t n_bytes;
} write_piece;

static sn_status write_whole(void *ctx, FILE *to) {
  const write_piece *p = ctx;
  return p->n_bytes == 0 || fwrite(p->data, 1, p->n_bytes, to) == p->n_bytes ? SN_OK : SN_ERR_IO;
}

sn_status sn_file_write(sn_diag *d, const char *path, const void *data, size_t n_bytes) {
  write_piece piece = {data, n_bytes};
  return sn_file_write_with(d, path, write_whole, &piece);
}
