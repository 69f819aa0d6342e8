/* A libmaypole.so without an agent, for what a real one does not do on demand: every status, an op
 * that never ends. One rank. An op's name tells its fate: "fail <status> <culprits>", "never"
 * (until the session is left), else success; the data stay as they are. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "maypole/maypole.h"

struct maypole_session {
  atomic_int left;
};

struct maypole_op {
  maypole_session* session;
  maypole_status status;
  int never;
  const void* result;
  char culprits[128];
};

static _Thread_local char error[256];
static _Thread_local char culprits_of_error[128];
atomic_int fake_open_sessions;
atomic_int fake_allocations;
atomic_int fake_ops;

static maypole_status Fail(maypole_status status, const char* text, const char* culprits) {
  snprintf(error, sizeof error, "%s", text);
  snprintf(culprits_of_error, sizeof culprits_of_error, "%s", culprits);
  return status;
}

maypole_status maypole_connect(const maypole_connect_options* options, maypole_session** session) {
  if (options->socket && strcmp(options->socket, "/nobody") == 0)
    return Fail(MAYPOLE_AGENT_UNAVAILABLE, "no agent at /nobody", "");
  *session = calloc(1, sizeof **session);
  fake_open_sessions++;
  return MAYPOLE_OK;
}

void maypole_leave(maypole_session* session) {
  if (!session->left && getenv("FAKE_MAYPOLE_SAYS"))
    puts("left");
  session->left = 1;
}

void maypole_close(maypole_session* session) {
  fake_open_sessions--;
  free(session);
}

int64_t maypole_rank(const maypole_session* session) {
  return (void)session, 0;
}

int64_t maypole_world_size(const maypole_session* session) {
  return (void)session, 1;
}

int64_t maypole_local_rank(const maypole_session* session) {
  return (void)session, 0;
}

int64_t maypole_local_world_size(const maypole_session* session) {
  return (void)session, 1;
}

int64_t maypole_nodes(const maypole_session* session) {
  return (void)session, 1;
}

maypole_status maypole_alloc(maypole_session* session, size_t bytes, void** memory) {
  if (session->left)
    return Fail(MAYPOLE_FAILED_PRECONDITION, "left", "");
  *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  memset(*memory, 0, bytes);
  fake_allocations++;
  return MAYPOLE_OK;
}

maypole_status maypole_free(maypole_session* session, void* memory) {
  (void)session;
  free(memory);
  fake_allocations--;
  return MAYPOLE_OK;
}

static maypole_status Submit(maypole_session* session,
                             const void* data,
                             const char* name,
                             maypole_op** op) {
  if (session->left)
    return Fail(MAYPOLE_FAILED_PRECONDITION, "left", "");
  *op = calloc(1, sizeof **op);
  (*op)->session = session;
  (*op)->result = data;
  if (name && strcmp(name, "never") == 0)
    (*op)->never = 1;
  int status = 0;
  if (name && sscanf(name, "fail %d %127s", &status, (*op)->culprits) >= 1)
    (*op)->status = (maypole_status)status;
  fake_ops++;
  return MAYPOLE_OK;
}

maypole_status maypole_all_reduce(maypole_session* session,
                                  void* data,
                                  uint64_t count,
                                  const maypole_op_options* options,
                                  maypole_op** op) {
  (void)count;
  return Submit(session, options->shared_result ? data : NULL, options->name, op);
}

maypole_status maypole_reduce_scatter(maypole_session* session,
                                      void* data,
                                      uint64_t count,
                                      const uint64_t* counts,
                                      const maypole_op_options* options,
                                      maypole_op** op) {
  (void)data, (void)count, (void)counts;
  return Submit(session, NULL, options->name, op);
}

maypole_status maypole_all_gather(maypole_session* session,
                                  void* data,
                                  uint64_t count,
                                  const uint64_t* counts,
                                  const maypole_op_options* options,
                                  maypole_op** op) {
  (void)count, (void)counts;
  return Submit(session, options->shared_result ? data : NULL, options->name, op);
}

maypole_status maypole_broadcast(maypole_session* session,
                                 void* data,
                                 uint64_t count,
                                 int64_t root,
                                 const maypole_op_options* options,
                                 maypole_op** op) {
  (void)count, (void)root;
  return Submit(session, options->shared_result ? data : NULL, options->name, op);
}

maypole_status maypole_reduce(maypole_session* session,
                              void* data,
                              uint64_t count,
                              int64_t root,
                              const maypole_op_options* options,
                              maypole_op** op) {
  (void)data, (void)count, (void)root;
  return Submit(session, NULL, options->name, op);
}

maypole_status maypole_all_to_all(maypole_session* session,
                                  const void* input,
                                  void* output,
                                  uint64_t count,
                                  const maypole_op_options* options,
                                  maypole_op** op) {
  (void)input, (void)output, (void)count;
  return Submit(session, NULL, options->name, op);
}

maypole_status maypole_send(maypole_session* session,
                            const void* data,
                            uint64_t count,
                            int64_t to,
                            const maypole_op_options* options,
                            maypole_op** op) {
  (void)data, (void)count, (void)to;
  return Submit(session, NULL, options->name, op);
}

maypole_status maypole_recv(maypole_session* session,
                            void* data,
                            uint64_t count,
                            int64_t from,
                            const maypole_op_options* options,
                            maypole_op** op) {
  (void)data, (void)count, (void)from;
  return Submit(session, NULL, options->name, op);
}

maypole_status maypole_barrier(maypole_session* session,
                               const char* name,
                               double timeout,
                               maypole_op** op) {
  (void)timeout;
  return Submit(session, NULL, name, op);
}

int maypole_test(maypole_op* op) {
  return !op->never || op->session->left;
}

int maypole_wait_for(maypole_op* op, double seconds) {
  for (double waited = 0; waited < seconds && !maypole_test(op); waited += 0.005)
    nanosleep(&(struct timespec){0, 5000000}, NULL);
  return maypole_test(op);
}

maypole_status maypole_wait(maypole_op* op) {
  while (!maypole_wait_for(op, 1)) {
  }
  if (op->never)
    return Fail(MAYPOLE_FAILED_PRECONDITION, "left", "");
  return op->status ? Fail(op->status, "as the test asked", op->culprits) : MAYPOLE_OK;
}

const void* maypole_op_result(const maypole_op* op) {
  return op->result;
}

void maypole_op_free(maypole_op* op) {
  fake_ops--;
  free(op);
}

const char* maypole_last_error(void) {
  return error;
}

const char* maypole_last_error_culprits(void) {
  return culprits_of_error;
}

const char* maypole_version(void) {
  return FAKE_VERSION;
}

maypole_status maypole_get_agent_stats(maypole_session* session, maypole_agent_stats* stats) {
  (void)session;
  *stats = (maypole_agent_stats){.ops = 7, .transfer_ns = 9, .algorithm = "ring"};
  return MAYPOLE_OK;
}
