// SPDX-License-Identifier: Apache-2.0
// Stands before the C library (LD_PRELOAD) and sees each call that changes what a disk holds below one folder: it
// counts them, writes them down, and lets one fail, or the process die just before one. Python calls `disk_*`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static size_t folder_length;
static int log_file = -1, steps, stop_at, error_given, stays_full;

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
#define REAL(type, name, ...)                                                                                          \
  static type (*real)(__VA_ARGS__);                                                                                    \
  if (!real)                                                                                                           \
  real = (type (*)(__VA_ARGS__))next(name)

// Watch a folder. Step `at` fails with `error`, from then on all do where `full`; an error of 0 kills. Steps are
// written to `log` where that is a file. 0 for `at`: nothing happens.
void disk_watch(const char *path, int at, int error, int full, int log) {
  snprintf(folder, sizeof folder, "%s", path);
  folder_length = strlen(folder);
  steps = 0, stop_at = at, error_given = error, stays_full = full, log_file = log;
}

void disk_forget(void) { folder_length = 0; }
int disk_steps(void) { return steps; }

struct record {
  uint32_t kind, first, second, data;
  uint64_t file;
  int64_t at;
};

static void put(const void *data, size_t size) {
  REAL(ssize_t, "write", int, const void *, size_t);
  while (size) {
    ssize_t n = real(log_file, data, size);
    if (n <= 0) abort();
    data = (const char *)data + n;
    size -= (size_t)n;
  }
}

static void note(char kind, uint64_t file, int64_t at, const char *first, const char *second, const void *data,
                 size_t size) {
  if (log_file < 0 || !folder_length) return;
  struct record one = {(uint32_t)kind, (uint32_t)strlen(first), (uint32_t)strlen(second), (uint32_t)size, file, at};
  put(&one, sizeof one);
  put(first, one.first);
  put(second, one.second);
  put(data, size);
}

void disk_note(const char *text) { note('!', 0, 0, text, "", "", 0); }

static int inside(const char *path) {
  return folder_length && !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

// The path that a call names, made absolute: of the folder's files only, which are named so by those who test.
static int at_path(int place, const char *path, char *whole) {
  char link[64];
  if (!folder_length) return 0;
  if (path[0] == '/') {
    snprintf(whole, PATH_MAX, "%s", path);
  } else {
    if (place == AT_FDCWD) {
      if (!getcwd(whole, PATH_MAX)) return 0;
    } else {
      snprintf(link, sizeof link, "/proc/self/fd/%d", place);
      ssize_t n = readlink(link, whole, PATH_MAX - 1);
      if (n < 0) return 0;
      whole[n] = 0;
    }
    size_t length = strlen(whole);
    snprintf(whole + length, PATH_MAX - length, "/%s", path);
  }
  return inside(whole);
}

static int of_file(int file, char *whole) {
  int before = errno, found = 0;
  if (folder_length && file != log_file) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, whole, PATH_MAX - 1);
    if (n > 0) {
      whole[n] = 0;
      found = inside(whole);
    }
  }
  errno = before;
  return found;
}

static uint64_t number(int file) {
  struct stat known;
  return fstat(file, &known) ? 0 : (uint64_t)known.st_ino;
}

static uint64_t number_at(const char *path) {
  struct stat known;
  int before = errno;
  uint64_t found = lstat(path, &known) ? 0 : (uint64_t)known.st_ino;
  errno = before;
  return found;
}

// A step is about to happen; whether it fails.
static int fails(void) {
  steps++;
  if (!stop_at || steps < stop_at || (steps > stop_at && !stays_full)) return 0;
  if (error_given) errno = error_given;
  return 1;
}

static void die(void) {
  if (!error_given) kill(getpid(), SIGKILL);
}

// --- Calls --------------------------------------------------------------------------------------------------------

ssize_t write(int file, const void *data, size_t size) {
  REAL(ssize_t, "write", int, const void *, size_t);
  char path[PATH_MAX];
  if (!of_file(file, path)) return real(file, data, size);
  int bad = fails();
  if (bad && size > 1) size /= 2; // a disk fills, a process dies in the middle
  if (!bad || size > 1) {
    ssize_t n = real(file, data, size);
    if (n > 0) note('w', number(file), lseek(file, 0, SEEK_CUR) - n, path, "", data, (size_t)n);
    if (!bad) return n;
  }
  die();
  errno = error_given;
  return -1;
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
  REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
  char path[PATH_MAX];
  if (!of_file(file, path)) return real(file, data, size, at);
  if (fails()) {
    die();
    return -1;
  }
  ssize_t n = real(file, data, size, at);
  if (n > 0) note('w', number(file), at, path, "", data, (size_t)n);
  return n;
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) { return pwrite64(file, data, size, at); }

int ftruncate64(int file, off64_t size) {
  REAL(int, "ftruncate64", int, off64_t);
  char path[PATH_MAX];
  int found = real(file, size); // never refused: it takes no place
  if (!found && of_file(file, path)) note('t', number(file), size, path, "", "", 0);
  return found;
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

int fsync(int file) {
  REAL(int, "fsync", int);
  char path[PATH_MAX];
  if (!of_file(file, path)) return real(file);
  if (fails()) {
    die();
    return -1;
  }
  note('s', number(file), 0, path, "", "", 0);
  return 0; // what is simulated needs no real one
}
int fdatasync(int file) { return fsync(file); }

static int opened(int place, const char *path, int flags, mode_t mode) {
  REAL(int, "openat64", int, const char *, int, ...);
  char whole[PATH_MAX];
  if (!(flags & (O_CREAT | O_TRUNC)) || (flags & __O_TMPFILE) == __O_TMPFILE || !at_path(place, path, whole))
    return real(place, path, flags, mode);
  struct stat known;
  int before = errno, there = !stat(whole, &known);
  errno = before;
  if (there && !((flags & O_TRUNC) && known.st_size)) return real(place, path, flags, mode); // changes nothing
  if (fails()) {
    die();
    return -1;
  }
  int file = real(place, path, flags, mode);
  if (file >= 0) note(there ? 't' : 'c', number(file), 0, whole, "", "", 0);
  return file;
}

#define MODE                                                                                                           \
  mode_t mode = 0;                                                                                                     \
  if (flags & (O_CREAT | __O_TMPFILE)) {                                                                               \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode = va_arg(rest, mode_t);                                                                                       \
    va_end(rest);                                                                                                      \
  }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat64(int place, const char *path, int flags, ...) { MODE return opened(place, path, flags, mode); }
int openat(int place, const char *path, int flags, ...) { MODE return opened(place, path, flags, mode); }

int renameat(int from, const char *old, int to, const char *path) {
  REAL(int, "renameat", int, const char *, int, const char *);
  char first[PATH_MAX], second[PATH_MAX];
  if (!at_path(from, old, first) || !at_path(to, path, second)) return real(from, old, to, path);
  if (fails()) {
    die();
    return -1;
  }
  uint64_t file = number_at(first);
  int found = real(from, old, to, path);
  if (!found) note('r', file, 0, first, second, "", 0);
  return found;
}
int rename(const char *old, const char *path) { return renameat(AT_FDCWD, old, AT_FDCWD, path); }

int unlinkat(int place, const char *path, int flags) {
  REAL(int, "unlinkat", int, const char *, int);
  char whole[PATH_MAX];
  int watched = at_path(place, path, whole);
  if (watched && fails()) die(); // but a full disk lets names go
  int found = real(place, path, flags);
  if (watched && !found) note('u', 0, 0, whole, "", "", 0);
  return found;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int place, const char *path, mode_t mode) {
  REAL(int, "mkdirat", int, const char *, mode_t);
  char whole[PATH_MAX];
  if (!at_path(place, path, whole) || number_at(whole)) return real(place, path, mode);
  if (fails()) {
    die();
    return -1;
  }
  int found = real(place, path, mode);
  if (!found) note('m', number_at(whole), 0, whole, "", "", 0);
  return found;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
