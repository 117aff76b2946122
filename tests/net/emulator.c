/* A switch between network namespaces with a rate, a delay, a loss and a bounded queue for each port, for kernels
 * without netem: each namespace gets a TAP device, and frames go between them by this program.
 *
 * usage: emulator NAME FILE_OF_NAMESPACE...      (two to eight; NAME: of the device in each)
 *
 * Prints "ready", then reads commands, a line each, and answers each with "ok":
 *   set RATE_MBIT DELAY_US LOSS_PERCENT QUEUE_MS   of every port, both ways; a rate of 0: as fast as it goes
 *   cut PORT | mend PORT                           nothing gets through, and nobody is told
 *   lose PORT COUNT                                the next COUNT frames of this port get lost
 *   count PORT                                     answers "ok FRAMES BYTES" that the port has sent
 * It ends with its input. The delay is one way, from each port to the switch and on: half of a round trip. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PORTS 8
#define QUEUE 8192
#define FRAME 2048

struct frame { int64_t due; int length; unsigned char *bytes; };

struct port {
  int fd, cut;
  unsigned char mac[6];
  int known;
  long lose;
  uint64_t frames, bytes;
  int64_t busy;                 /* until when what was sent to this port occupies its line */
  unsigned head, tail;          /* frames on their way to this port */
  struct frame queue[QUEUE];
};

static struct port ports[PORTS];
static int count;
static double rate;
static int64_t delay_ns, queue_ns = 100000000;
static double loss;
static uint64_t state = 88172645463325252ULL;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double chance(void) {
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  return (state >> 11) * (1.0 / 9007199254740992.0);
}

static int device(const char *namespace, const char *name) {
  int fd = open(namespace, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET)) { perror(namespace); exit(1); }
  close(fd);
  fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) { perror("/dev/net/tun"); exit(1); }
  struct ifreq request;
  memset(&request, 0, sizeof request);
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(fd, TUNSETIFF, &request)) { perror("TUNSETIFF"); exit(1); }
  return fd;
}

static void send_to(struct port *to, const unsigned char *bytes, int length, int64_t at) {
  if (to->cut || to->head - to->tail >= QUEUE) return;
  int64_t begin = to->busy > at ? to->busy : at;
  if (rate > 0) {
    if (begin - at > queue_ns) return;
    to->busy = begin + (int64_t)(length * 8000.0 / rate);
  } else to->busy = begin;
  struct frame *f = &to->queue[to->head % QUEUE];
  f->due = to->busy + delay_ns;
  f->length = length;
  f->bytes = malloc(length);
  if (!f->bytes) exit(1);
  memcpy(f->bytes, bytes, length);
  to->head++;
}

static void forward(struct port *from, const unsigned char *bytes, int length) {
  from->frames++; from->bytes += length;
  if (length < 14 || from->cut) return;
  memcpy(from->mac, bytes + 6, 6);
  from->known = 1;
  if (from->lose > 0) { from->lose--; return; }
  if (loss > 0 && chance() < loss) return;
  int64_t at = now();
  if (!(bytes[0] & 1))
    for (int i = 0; i < count; i++)
      if (&ports[i] != from && ports[i].known && !memcmp(ports[i].mac, bytes, 6)) {
        send_to(&ports[i], bytes, length, at);
        return;
      }
  for (int i = 0; i < count; i++)
    if (&ports[i] != from) send_to(&ports[i], bytes, length, at);
}

static void obey(char *line) {
  int port; long number; double r, d, l, q;
  if (sscanf(line, "set %lf %lf %lf %lf", &r, &d, &l, &q) == 4) {
    rate = r; delay_ns = (int64_t)(d * 1000); loss = l / 100; queue_ns = (int64_t)(q * 1e6);
  } else if (sscanf(line, "cut %d", &port) == 1 && port >= 0 && port < count) {
    ports[port].cut = 1;
    while (ports[port].tail != ports[port].head) free(ports[port].queue[ports[port].tail++ % QUEUE].bytes);
  } else if (sscanf(line, "mend %d", &port) == 1 && port >= 0 && port < count) ports[port].cut = 0;
  else if (sscanf(line, "lose %d %ld", &port, &number) == 2 && port >= 0 && port < count) ports[port].lose = number;
  else if (sscanf(line, "count %d", &port) == 1 && port >= 0 && port < count) {
    printf("ok %llu %llu\n", (unsigned long long)ports[port].frames, (unsigned long long)ports[port].bytes);
    fflush(stdout);
    return;
  } else { printf("what\n"); fflush(stdout); return; }
  printf("ok\n");
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 4 || argc > 2 + PORTS) return 2;
  prctl(PR_SET_TIMERSLACK, 1UL);
  count = argc - 2;
  for (int i = 0; i < count; i++) ports[i].fd = device(argv[2 + i], argv[1]);
  fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
  printf("ready\n");
  fflush(stdout);
  static unsigned char bytes[FRAME];
  static char line[256];
  size_t typed = 0;
  for (;;) {
    int64_t next = INT64_MAX;
    int worked = 0;
    for (int i = 0; i < count; i++)
      for (int k = 0; k < 64; k++) {
        int length = read(ports[i].fd, bytes, sizeof bytes);
        if (length <= 0) break;
        worked = 1;
        forward(&ports[i], bytes, length);
      }
    int64_t at = now();
    for (int i = 0; i < count; i++) {
      struct port *p = &ports[i];
      while (p->tail != p->head) {
        struct frame *f = &p->queue[p->tail % QUEUE];
        if (f->due > at) { if (f->due < next) next = f->due; break; }
        if (write(p->fd, f->bytes, f->length) < 0 && errno == EAGAIN) { next = at + 100000; break; }
        free(f->bytes);
        p->tail++;
        worked = 1;
      }
    }
    if (worked) continue;
    struct pollfd polled[PORTS + 1];
    for (int i = 0; i < count; i++) polled[i] = (struct pollfd){ports[i].fd, POLLIN, 0};
    polled[count] = (struct pollfd){0, POLLIN, 0};
    struct timespec wait = {0, 0}, *until = NULL;
    if (next != INT64_MAX) {
      int64_t left = next - now();
      if (left < 0) left = 0;
      wait.tv_sec = left / 1000000000LL; wait.tv_nsec = left % 1000000000LL;
      until = &wait;
    }
    ppoll(polled, count + 1, until, NULL);
    if (polled[count].revents) {
      char c;
      ssize_t got;
      while ((got = read(0, &c, 1)) == 1) {
        if (c == '\n') { line[typed] = 0; typed = 0; obey(line); }
        else if (typed < sizeof line - 1) line[typed++] = c;
      }
      if (got == 0) return 0;
    }
  }
}
