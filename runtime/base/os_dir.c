/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "base_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sn_status dir_fault(sn_diag *d, const char *path, const char *doing, int error) {
  return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_IO, "cannot %s: %s", doing, strerror(error));
}

/* 0 or errno's value. */
static int dir_make_one(const char *path) {
  struct stat st;
  if (mkdir(path, 0777) == 0) return 0;
  int error = errno;
  if (stat(path, &st) != 0) return error;
  return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}

sn_status sn_dir_make(sn_diag *d, const char *path) {
  size_t n = strlen(path);
  char *part = sn_alloc(n + 1);
  if (part == NULL) return sn_out_of_memory(d, n + 1);
  memcpy(part, path, n + 1);
  int error = 0;
  for (size_t i = 1; i < n && error == 0; i++) {
    if (part[i] != '/' || part[i - 1] == '/') continue;
    part[i] = '\0';
    error = dir_make_one(part);
    part[i] = '/';
  }
  if (error == 0) error = dir_make_one(part);
  sn_free(part);
  return error == 0 ? SN_OK : dir_fault(d, path, "make directory", error);
}

sn_status sn_dir_make_private(sn_diag *d, const char *path) {
  struct stat st;
  bool fresh = stat(path, &st) != 0;
  SN_TRY(sn_dir_make(d, path));
  if (fresh && chmod(path, 0700) != 0) return dir_fault(d, path, "keep others out of directory", errno);
  if (stat(path, &st) != 0) return dir_fault(d, path, "look at directory", errno);
  if (st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0) return SN_OK;
  sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_IO, st.st_uid == geteuid() ? "others may write to this directory" : "this directory belongs to another user");
  sn_hint(d, "what is loaded from it is run: choose one of your own with mode 0700");
  return SN_ERR_IO;
}

sn_status sn_dir_make_next(sn_diag *d, const char *parent, const char *name, char *to, size_t n_bytes) {
  SN_TRY(sn_dir_make(d, parent));
  for (unsigned k = 0;; k++) {
    int n = snprintf(to, n_bytes, "%s/%s.%u", parent, name, k);
    if (n < 0 || (size_t)n >= n_bytes) return dir_fault(d, parent, "make a directory in it", ENAMETOOLONG);
    if (mkdir(to, 0777) == 0) return SN_OK;
    if (errno != EEXIST) return dir_fault(d, parent, "make a directory in it", errno);
  }
}

typedef struct dir_names {
  const char **at;
  size_t n, cap;
} dir_names;

static bool dir_add(dir_names *names, sn_arena *a, const char *name) {
  if (names->n == names->cap) {
    size_t cap = names->cap != 0 ? names->cap * 2 : 32;
    const char **grown = sn_realloc((void *)names->at, cap * sizeof *grown);
    if (grown == NULL) return false;
    names->at = grown;
    names->cap = cap;
  }
  char *copy = sn_arena_string(a, name);
  if (copy == NULL) return false;
  names->at[names->n++] = copy;
  return true;
}

static sn_status dir_read(sn_diag *d, const char *path, DIR *dir, sn_arena *a, dir_names *names) {
  for (;;) {
    errno = 0;
    const struct dirent *e = readdir(dir);
    if (e == NULL) return errno == 0 ? SN_OK : dir_fault(d, path, "read directory", errno);
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (!dir_add(names, a, e->d_name)) return sn_out_of_memory(d, strlen(e->d_name) + 1);
  }
}

static int dir_compare(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

sn_status sn_dir_list(sn_diag *d, sn_arena *a, const char *path, const char *const **names, size_t *n) {
  *names = NULL;
  *n = 0;
  DIR *dir = opendir(path);
  if (dir == NULL) return dir_fault(d, path, "open directory", errno);
  dir_names found = {0};
  sn_status s = dir_read(d, path, dir, a, &found);
  closedir(dir);
  if (s == SN_OK) {
    size_t bytes = found.n * sizeof *found.at;
    if (found.n != 0) qsort((void *)found.at, found.n, sizeof *found.at, dir_compare);
    const char **kept = sn_arena_copy(a, (const void *)found.at, bytes);
    if (kept == NULL) s = sn_out_of_memory(d, bytes);
    if (s == SN_OK) {
      *names = (const char *const *)kept;
      *n = found.n;
    }
  }
  sn_free((void *)found.at);
  return s;
}
