/* Maypole client, C99. Thin: a Unix socket to the agent of this node, shared segments, no thread of
 * its own, no third-party library. docs/errors.md explains every status; client.h is the C++ face
 * of the same functions.
 *
 * Units:     counts are elements, sizes are bytes, times are seconds.
 * Threads:   any thread may use a session; each function locks what it needs. One op handle belongs
 *            to one thread at a time.
 * Ownership: the session owns its memory; maypole_close ends everything that came from it.
 * Fork:      a forked child may not use the session: every call there returns
 *            MAYPOLE_FAILED_PRECONDITION, and the child's exit does not disturb the parent.
 * Errors:    a function that fails returns its status and leaves a sentence in maypole_last_error()
 *            of the calling thread.
 */
#ifndef MAYPOLE_MAYPOLE_H_
#define MAYPOLE_MAYPOLE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MAYPOLE_API __attribute__((visibility("default")))
#else
#define MAYPOLE_API
#endif

typedef struct maypole_session maypole_session;
typedef struct maypole_op maypole_op;

typedef enum maypole_status {
  MAYPOLE_OK = 0,
  MAYPOLE_INVALID_ARGUMENT = 1,
  MAYPOLE_MISMATCH = 2,
  MAYPOLE_PEER_LOST = 3,
  MAYPOLE_TIMEOUT = 4,
  MAYPOLE_AGENT_UNAVAILABLE = 5,
  MAYPOLE_RESOURCE_EXHAUSTED = 6,
  MAYPOLE_FAILED_PRECONDITION = 7,
  MAYPOLE_INTERNAL = 8
} maypole_status;

typedef enum maypole_dtype {
  MAYPOLE_F32 = 0,
  MAYPOLE_F64 = 1,
  MAYPOLE_F16 = 2,
  MAYPOLE_BF16 = 3,
  MAYPOLE_I8 = 4,
  MAYPOLE_U8 = 5,
  MAYPOLE_I32 = 6,
  MAYPOLE_I64 = 7
} maypole_dtype;

typedef enum maypole_reduction {
  MAYPOLE_SUM = 0,
  MAYPOLE_MEAN = 1,
  MAYPOLE_MIN = 2,
  MAYPOLE_MAX = 3,
  MAYPOLE_PRODUCT = 4
} maypole_reduction;

typedef enum maypole_algorithm {
  MAYPOLE_AUTO = 0,
  MAYPOLE_RING = 1,
  MAYPOLE_DIRECT = 2,
  MAYPOLE_NAIVE = 3,
  MAYPOLE_TREE = 4,
  MAYPOLE_DOUBLE_TREE = 5,
  MAYPOLE_HALVING_DOUBLING = 6,
  MAYPOLE_HIERARCHICAL = 7 /* refused where the job has no levels */
} maypole_algorithm;

/* Zero-initialise, then set what differs. */
typedef struct maypole_connect_options {
  const char* socket; /* NULL: MAYPOLE_SOCKET, else /run/maypole/agent.sock */
  const char* job;    /* NULL: MAYPOLE_JOB, else "default" */
  int64_t rank;       /* with world_size 0: RANK */
  int64_t world_size; /* 0: RANK and WORLD_SIZE from the environment */
  double timeout;     /* until all ranks have joined; <= 0: 60 s */
  /* Not 0, or MAYPOLE_DETERMINISTIC=1: the same inputs, world and ranks per node give the same bits
   * in every run, however tensors are bucketed: sums are direct, or naive where asked for, always
   * in the order of ranks; other algorithms are refused. For all ranks of a job or for none. */
  int deterministic;
} maypole_connect_options;

/* Zero-initialise, then set what differs. */
typedef struct maypole_op_options {
  maypole_dtype dtype;
  maypole_reduction reduction; /* of all-reduce, reduce-scatter and reduce */
  /* UTF-8, at most 255 bytes. The k-th op of a name meets the k-th of that name on the other ranks.
   * NULL: all unnamed ops of the session are matched in order. */
  const char* name;
  int priority;   /* higher goes first; 0 */
  double timeout; /* deadline from submission; <= 0: the agent's default (300 s) */
  /* MAYPOLE_AUTO unless you measure. All-reduce has all; reduce-scatter, all-gather, broadcast and
   * reduce have ring, direct and tree, the others direct. */
  maypole_algorithm algorithm;
  /* Not 0, of all-reduce, all-gather and broadcast: out of place; the result is one read-only copy
   * for all ranks of the node, at maypole_op_result() until maypole_op_free(). */
  int shared_result;
  /* Not 0: in session memory, the input need not be restored if the op fails (saves a copy). */
  int overwrite;
} maypole_op_options;

/* Connects and waits until all ranks of the job have joined. `options` may be NULL: all from the
 * environment. */
MAYPOLE_API maypole_status maypole_connect(const maypole_connect_options* options,
                                           maypole_session** session);
/* Leaves the job: every op in flight and every later call ends with MAYPOLE_FAILED_PRECONDITION
 * (waiting threads wake), but memory, results and handles stay valid until maypole_close. For
 * language bindings whose arrays may outlive the session; may be called again. NULL is allowed. */
MAYPOLE_API void maypole_leave(maypole_session* session);
/* Leaves the job and frees everything. Ops still in flight are given up. NULL is allowed. */
MAYPOLE_API void maypole_close(maypole_session* session);

MAYPOLE_API int64_t maypole_rank(const maypole_session* session);
MAYPOLE_API int64_t maypole_world_size(const maypole_session* session);
MAYPOLE_API int64_t maypole_local_rank(const maypole_session* session);
MAYPOLE_API int64_t maypole_local_world_size(const maypole_session* session);
MAYPOLE_API int64_t maypole_nodes(const maypole_session* session);

/* `bytes` of zeroed memory that the agent reads in place (zero-copy), 64-byte aligned; physical
 * pages come when touched. */
MAYPOLE_API maypole_status maypole_alloc(maypole_session* session, size_t bytes, void** memory);
/* `memory` from maypole_alloc and in no op. NULL is allowed. */
MAYPOLE_API maypole_status maypole_free(maypole_session* session, void* memory);

/* Submits an all-reduce of `count` elements at `data` and returns at once. In session memory
 * nothing is copied; other memory is copied in now and the result copied back by maypole_wait.
 * `data` must stay valid and untouched until then. count 0 is legal and still meets the other
 * ranks. `options` may be NULL (f32 sum, unnamed). */
MAYPOLE_API maypole_status maypole_all_reduce(maypole_session* session,
                                              void* data,
                                              uint64_t count,
                                              const maypole_op_options* options,
                                              maypole_op** op);

/* The other collectives take the same options and return in the same way. Where options say nothing
 * else, results come in place: what an op is not said to write stays as it is, and what it is not
 * said to read need hold nothing. After a failure what it reads is as submitted; what it only
 * writes may hold anything.
 *
 * Blocks: an op with blocks gives each rank one, in the order of ranks. Without `counts` (NULL) all
 * have count / world size elements, which must divide; else counts[r] is that of rank r, may be 0,
 * and they add up to count. It has one entry for each rank and is read during the call.
 *
 * All ranks must agree on collective, dtype, count, root, blocks and, where elements are reduced,
 * on the reduction. */

/* Each rank's block of `data` becomes that block of the reduction of all ranks' `data`; the rest is
 * read only. */
MAYPOLE_API maypole_status maypole_reduce_scatter(maypole_session* session,
                                                  void* data,
                                                  uint64_t count,
                                                  const uint64_t* counts,
                                                  const maypole_op_options* options,
                                                  maypole_op** op);
/* Reads each rank's own block of `data` and writes the blocks of the others. */
MAYPOLE_API maypole_status maypole_all_gather(maypole_session* session,
                                              void* data,
                                              uint64_t count,
                                              const uint64_t* counts,
                                              const maypole_op_options* options,
                                              maypole_op** op);
/* `data` of rank `root` is read there and written on all others. */
MAYPOLE_API maypole_status maypole_broadcast(maypole_session* session,
                                             void* data,
                                             uint64_t count,
                                             int64_t root,
                                             const maypole_op_options* options,
                                             maypole_op** op);
/* As all-reduce, but only rank `root` gets the result. */
MAYPOLE_API maypole_status maypole_reduce(maypole_session* session,
                                          void* data,
                                          uint64_t count,
                                          int64_t root,
                                          const maypole_op_options* options,
                                          maypole_op** op);
/* Block r of `input` goes to rank r, where it becomes the sender's block of `output`. Both have
 * `count` elements in equal blocks and do not overlap. */
MAYPOLE_API maypole_status maypole_all_to_all(maypole_session* session,
                                              const void* input,
                                              void* output,
                                              uint64_t count,
                                              const maypole_op_options* options,
                                              maypole_op** op);
/* To rank `to`, which calls maypole_recv with the same name, dtype and count. Only these two take
 * part: the k-th send of a name from a rank to another meets the k-th receive of that name there.
 * Ends when `data` may be used again. */
MAYPOLE_API maypole_status maypole_send(maypole_session* session,
                                        const void* data,
                                        uint64_t count,
                                        int64_t to,
                                        const maypole_op_options* options,
                                        maypole_op** op);
MAYPOLE_API maypole_status maypole_recv(maypole_session* session,
                                        void* data,
                                        uint64_t count,
                                        int64_t from,
                                        const maypole_op_options* options,
                                        maypole_op** op);

/* A barrier: returns in maypole_wait when all ranks have submitted it. */
MAYPOLE_API maypole_status maypole_barrier(maypole_session* session,
                                           const char* name,
                                           double timeout,
                                           maypole_op** op);

/* 1 if maypole_wait would return at once. */
MAYPOLE_API int maypole_test(maypole_op* op);
/* Waits for at most `seconds`: 1 if maypole_wait would now return at once, else 0. Lets a caller
 * look at signals or its own clock now and then. Sleeps. */
MAYPOLE_API int maypole_wait_for(maypole_op* op, double seconds);
/* Waits for the end and returns the op's status; may be called again. Sleeps; burns no CPU. */
MAYPOLE_API maypole_status maypole_wait(maypole_op* op);
/* The shared result, or NULL. */
MAYPOLE_API const void* maypole_op_result(const maypole_op* op);
/* Waits if need be, then frees the handle. Without a maypole_wait before, ordinary memory stays as
 * it was: the result is dropped. NULL is allowed. */
MAYPOLE_API void maypole_op_free(maypole_op* op);

/* Sentence for the last failure on the calling thread; "" if none. Valid until the thread's next
 * call. */
MAYPOLE_API const char* maypole_last_error(void);
/* Who caused it, for programs: e.g. "ranks=3,5;hosts=node-b"; "" if nobody in particular. */
MAYPOLE_API const char* maypole_last_error_culprits(void);
MAYPOLE_API const char* maypole_status_name(maypole_status status);
MAYPOLE_API const char* maypole_version(void);

/* Counters of the agent, for benchmarks and tests; all only grow but resident_bytes. */
typedef struct maypole_agent_stats {
  uint64_t ops;
  uint64_t wire_sent_bytes;
  uint64_t wire_received_bytes;
  uint64_t cpu_ns;
  uint64_t resident_bytes;
  uint64_t local_sum_ns;
  uint64_t wait_ns;
  uint64_t transfer_ns;
  char algorithm[16]; /* of the last op */
} maypole_agent_stats;

MAYPOLE_API maypole_status maypole_get_agent_stats(maypole_session* session,
                                                   maypole_agent_stats* stats);

#ifdef __cplusplus
}
#endif
#endif
