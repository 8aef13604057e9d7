/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The CPUs this process may use, the clock, the environment. */
#include "base_internal.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CPU_PATH_BYTES 1024
#define CPU_MAX_KNOWN (1 << 16)

/* Reads a small file of the kernel's; false when there is none. */
static bool cpu_read(const char *path, char *text, size_t bytes) {
  FILE *f = fopen(path, "re");
  if (f == NULL) return false;
  size_t n = fread(text, 1, bytes - 1, f);
  fclose(f);
  text[n] = '\0';
  return true;
}

/* Whole CPUs in the quota: a pool that spins on a part of one would be throttled as a whole. */
static int cpu_from_quota(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return INT32_MAX;
  int64_t n = quota / period;
  return n < 1 ? 1 : n > INT32_MAX ? INT32_MAX : (int)n;
}

/* cgroup v2: "max 100000" or "150000 100000". */
static int cpu_quota_v2(const char *dir) {
  char path[CPU_PATH_BYTES + 32], text[64];
  int64_t quota, period;
  snprintf(path, sizeof path, "%s/cpu.max", dir);
  if (!cpu_read(path, text, sizeof text)) return INT32_MAX;
  if (sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2) return INT32_MAX;
  return cpu_from_quota(quota, period);
}

static int cpu_quota_v1(const char *dir) {
  char path[CPU_PATH_BYTES + 32], text[64];
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
  if (!cpu_read(path, text, sizeof text)) return INT32_MAX;
  int64_t quota = strtoll(text, NULL, 10);
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
  if (!cpu_read(path, text, sizeof text)) return INT32_MAX;
  return cpu_from_quota(quota, strtoll(text, NULL, 10));
}

/* A limit binds all groups below it, so the strictest from `group` up to `mount` counts. In a container
 * the path may name groups that are not mounted; those are passed over. */
static int cpu_quota_up(const char *mount, const char *group, int (*quota)(const char *dir)) {
  char dir[CPU_PATH_BYTES];
  int n = snprintf(dir, sizeof dir, "%s%s", mount, group);
  if (n < 0 || (size_t)n >= sizeof dir) return INT32_MAX;
  int least = INT32_MAX;
  for (size_t floor = strlen(mount);;) {
    int here = quota(dir);
    if (here < least) least = here;
    char *slash = strrchr(dir, '/');
    if (slash == NULL || (size_t)(slash - dir) < floor) return least;
    *slash = '\0';
  }
}

/* Is "cpu" among "cpu,cpuacct"? */
static bool cpu_is_controller(const char *list, size_t n) {
  for (const char *at = list, *end = list + n; at < end;) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    size_t length = (size_t)((comma != NULL ? comma : end) - at);
    if (length == 3 && memcmp(at, "cpu", 3) == 0) return true;
    at += length + 1;
  }
  return false;
}

/* The quota for one line of the membership, "number:controllers:path"; v2 has no controllers. */
static int cpu_quota_line(const char *root, const char *line) {
  static const char *const mounts_v2[] = {"", "/unified"};
  static const char *const mounts_v1[] = {"/cpu", "/cpu,cpuacct"};
  const char *list = strchr(line, ':');
  const char *group = list != NULL ? strchr(list + 1, ':') : NULL;
  if (group == NULL) return INT32_MAX;
  list++;
  bool v2 = group == list;
  if (!v2 && !cpu_is_controller(list, (size_t)(group - list))) return INT32_MAX;
  int least = INT32_MAX;
  for (int i = 0; i < 2; i++) {
    char mount[CPU_PATH_BYTES];
    snprintf(mount, sizeof mount, "%s%s", root, v2 ? mounts_v2[i] : mounts_v1[i]);
    int n = cpu_quota_up(mount, group + 1, v2 ? cpu_quota_v2 : cpu_quota_v1);
    if (n < least) least = n;
  }
  return least;
}

int sn_base_quota_cpus(const char *root, const char *membership) {
  int least = INT32_MAX;
  while (*membership != '\0') {
    char line[CPU_PATH_BYTES];
    size_t n = strcspn(membership, "\n");
    if (n < sizeof line) {
      memcpy(line, membership, n);
      line[n] = '\0';
      int here = cpu_quota_line(root, line);
      if (here < least) least = here;
    }
    membership += n + (membership[n] == '\n');
  }
  return least;
}

static int cpu_affinity(void) {
#ifdef __linux__
  /* The kernel refuses a set smaller than its own, so ask with larger ones. */
  for (int n = 1024; n <= CPU_MAX_KNOWN; n *= 4) {
    cpu_set_t *set = CPU_ALLOC((size_t)n);
    if (set == NULL) break;
    size_t bytes = CPU_ALLOC_SIZE((size_t)n);
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
#endif
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online <= CPU_MAX_KNOWN ? (int)online : 1;
}

int sn_cpu_count(void) {
  char membership[4096];
  int count = cpu_affinity();
  int quota = INT32_MAX;
  if (cpu_read("/proc/self/cgroup", membership, sizeof membership)) {
    quota = sn_base_quota_cpus("/sys/fs/cgroup", membership);
  }
  return quota < count ? quota : count;
}

double sn_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *sn_env(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? value : NULL;
}
