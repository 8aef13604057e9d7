/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What profilers and debuggers of the system want of a process that makes code: files that grow while it runs, and one of them mapped so that they see it. */
#include "base_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sn_status append_fault(sn_diag *d, const char *path, const char *doing) { return sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_IO, "cannot %s: %s", doing, strerror(errno)); }

int64_t sn_process_id(void) { return (int64_t)getpid(); }

static bool append_all(int fd, const char *data, size_t n) {
  while (n > 0) {
    ssize_t written = write(fd, data, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    n -= (size_t)written;
  }
  return true;
}

sn_status sn_file_append(sn_diag *d, const char *path, const void *data, size_t n_bytes) {
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return append_fault(d, path, "open");
  sn_status s = append_all(fd, data, n_bytes) ? SN_OK : append_fault(d, path, "write");
  if (close(fd) != 0 && s == SN_OK) s = append_fault(d, path, "write");
  return s;
}

sn_status sn_file_mark(sn_diag *d, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return append_fault(d, path, "open");
  void *p = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  sn_status s = p != MAP_FAILED ? SN_OK : append_fault(d, path, "map");
  close(fd);
  return s;
}
