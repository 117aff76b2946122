/* Writes down, in order, what a process does to the files under one folder: LD_PRELOAD it.
 *
 * POWERCUT_ROOT is the folder (its real path), POWERCUT_LOG the log that records are appended to. A record is
 * { u8 op, u64 inode, i64 offset, u32 bytes of path, u32 bytes of data } in little-endian order, then path, then data:
 *   'c' a name now stands for an inode       'w' bytes written at an offset      's' a file or folder was synced
 *   'r' a name (path) became another (data)  'l' another name (data) for one     't' a file has this length (offset)
 *   'u' a name is gone                       'm' is written by whoever wants to mark a moment, see recorder.py
 * Files are known by inode, so a descriptor that outlives its name is still understood. Mapped writes and
 * copy_file_range are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int log_fd = -1;
static char root[PATH_MAX];
static size_t root_bytes;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("POWERCUT_ROOT"), *log = getenv("POWERCUT_LOG");
    if (!folder || !log || !realpath(folder, root)) return;
    root_bytes = strlen(root);
    int fd = NEXT(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 700);
    NEXT(close)(fd);
}

static void record(char op, uint64_t inode, int64_t offset, const char *path, const void *bytes, uint32_t length) {
    unsigned char head[25];
    uint32_t path_bytes = strlen(path);
    head[0] = op;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &offset, 8);
    memcpy(head + 17, &path_bytes, 4);
    memcpy(head + 21, &length, 4);
    struct iovec parts[3] = {{head, 25}, {(void *)path, path_bytes}, {(void *)bytes, length}};
    int kept = errno;
    flock(log_fd, LOCK_EX);
    if (NEXT(writev)(log_fd, parts, 3) < 0) abort();
    flock(log_fd, LOCK_UN);
    errno = kept;
}

/* The absolute path of `name` seen from the folder `dir`, with the folder resolved and the last part left as it is. */
static int absolute(int dir, const char *name, char *out) {
    char whole[PATH_MAX], link[64], folder[PATH_MAX];
    if (log_fd < 0 || !name) return 0;
    if (name[0] == '/' || dir == AT_FDCWD) {
        snprintf(whole, sizeof whole, "%s", name);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, folder, sizeof folder - 1);
        if (length < 0) return 0;
        folder[length] = 0;
        if (snprintf(whole, sizeof whole, "%s/%s", folder, name) >= (int)sizeof whole) return 0;
    }
    char *slash = strrchr(whole, '/');
    const char *last = slash ? slash + 1 : whole;
    char saved[NAME_MAX + 1];
    if (strlen(last) > NAME_MAX) return 0;
    strcpy(saved, last);
    if (slash) slash[slash == whole] = 0;
    if (!realpath(slash ? whole : ".", folder)) return 0;
    if (snprintf(out, PATH_MAX, "%s/%s", strcmp(folder, "/") ? folder : "", saved) >= PATH_MAX) return 0;
    return !strncmp(out, root, root_bytes) && (out[root_bytes] == '/' || !out[root_bytes]);
}

/* The inode of a descriptor of a file or folder under the root, 0 for anything else. */
static uint64_t inode_of(int fd, char *path) {
    struct stat found;
    char link[64];
    if (log_fd < 0 || fd < 0 || fd == log_fd || fstat(fd, &found)) return 0;
    if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < (ssize_t)root_bytes) return 0;
    path[length] = 0;
    if (strncmp(path, root, root_bytes) || (path[root_bytes] && path[root_bytes] != '/')) return 0;
    return found.st_ino;
}

static void opened(int fd, int dir, const char *name, int flags, int existed) {
    char path[PATH_MAX], now[PATH_MAX];
    if (fd < 0 || !absolute(dir, name, path)) return;
    uint64_t inode = inode_of(fd, now);
    if (!inode) return;
    if ((flags & O_CREAT) && !existed) record('c', inode, 0, path, "", 0);
    if (flags & O_TRUNC) record('t', inode, 0, path, "", 0);
}

static int exists(int dir, const char *name, int flags) {
    struct stat found;
    return log_fd < 0 || !(flags & O_CREAT) || !fstatat(dir, name, &found, AT_SYMLINK_NOFOLLOW);
}

#define MODE int mode = 0; if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); }
#define OPEN(name) int name(const char *path, int flags, ...) { MODE \
    int before = exists(AT_FDCWD, path, flags), fd = NEXT(name)(path, flags, mode); \
    opened(fd, AT_FDCWD, path, flags, before); return fd; }
#define OPENAT(name) int name(int dir, const char *path, int flags, ...) { MODE \
    int before = exists(dir, path, flags), fd = NEXT(name)(dir, path, flags, mode); \
    opened(fd, dir, path, flags, before); return fd; }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

static void wrote(int fd, const void *bytes, ssize_t length, int64_t offset) {
    char path[PATH_MAX];
    uint64_t inode = length > 0 ? inode_of(fd, path) : 0;
    if (!inode) return;
    if (offset < 0) offset = lseek(fd, 0, SEEK_CUR) - length;
    record('w', inode, offset, path, bytes, length);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    ssize_t done = NEXT(write)(fd, bytes, length);
    wrote(fd, bytes, done, -1);
    return done;
}

static ssize_t gathered(int fd, const struct iovec *parts, int count, ssize_t done, int64_t offset) {
    char path[PATH_MAX];
    if (done <= 0 || !inode_of(fd, path)) return done;
    char *all = malloc(done);
    size_t have = 0;
    for (int i = 0; i < count && have < (size_t)done; i++) {
        size_t take = parts[i].iov_len < done - have ? parts[i].iov_len : done - have;
        memcpy(all + have, parts[i].iov_base, take);
        have += take;
    }
    wrote(fd, all, done, offset);
    free(all);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return gathered(fd, parts, count, NEXT(writev)(fd, parts, count), -1);
}

#define PWRITE(name) ssize_t name(int fd, const void *bytes, size_t length, off_t offset) { \
    ssize_t done = NEXT(name)(fd, bytes, length, offset); wrote(fd, bytes, done, offset); return done; }
PWRITE(pwrite)
PWRITE(pwrite64)

#define SYNC(name) int name(int fd) { char path[PATH_MAX]; int done = NEXT(name)(fd); \
    uint64_t inode = done ? 0 : inode_of(fd, path); if (inode) record('s', inode, 0, path, "", 0); return done; }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name) int name(int fd, off_t length) { char path[PATH_MAX]; int done = NEXT(name)(fd, length); \
    uint64_t inode = done ? 0 : inode_of(fd, path); if (inode) record('t', inode, length, path, "", 0); return done; }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

static int gone(int done, int dir, const char *name) {
    char path[PATH_MAX];
    if (!done && absolute(dir, name, path)) record('u', 0, 0, path, "", 0);
    return done;
}
int unlink(const char *name) { return gone(NEXT(unlink)(name), AT_FDCWD, name); }
int unlinkat(int dir, const char *name, int flags) { return gone(NEXT(unlinkat)(dir, name, flags), dir, name); }

static int named(int done, char op, int dir, const char *from, int to_dir, const char *to) {
    char one[PATH_MAX], other[PATH_MAX];
    if (!done && absolute(dir, from, one) && absolute(to_dir, to, other)) record(op, 0, 0, one, other, strlen(other));
    return done;
}
int rename(const char *from, const char *to) { return named(NEXT(rename)(from, to), 'r', AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int dir, const char *from, int to_dir, const char *to) {
    return named(NEXT(renameat)(dir, from, to_dir, to), 'r', dir, from, to_dir, to);
}
int link(const char *from, const char *to) { return named(NEXT(link)(from, to), 'l', AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int dir, const char *from, int to_dir, const char *to, int flags) {
    return named(NEXT(linkat)(dir, from, to_dir, to, flags), 'l', dir, from, to_dir, to);
}
