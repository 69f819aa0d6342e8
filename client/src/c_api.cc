// The C face: checks pointers, keeps the thread's last error, lets no exception out.
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "client/include/maypole/maypole.h"
#include "client/src/connect_settings.h"
#include "client/src/failure.h"
#include "client/src/op_request.h"
#include "client/src/session.h"
#include "client/src/version.h"

using maypole::ErrorCode;
using maypole::Outcome;
using maypole::collective::Collective;
namespace internal = maypole::client::internal;

struct maypole_session {
  std::shared_ptr<internal::Session> session;
};

struct maypole_op {
  internal::Op op;
};

namespace {

struct LastError {
  std::string text;
  std::string culprits;
};

LastError& ThreadError() {
  static thread_local LastError error;
  return error;
}

maypole_status Report(const Outcome& outcome) {
  if (outcome.ok()) {
    return MAYPOLE_OK;
  }
  ThreadError() = {outcome.text, outcome.culprits};
  return outcome.code <= ErrorCode::kInternal ? static_cast<maypole_status>(outcome.code)
                                              : MAYPOLE_INTERNAL;
}

// Runs `call` and reports its Outcome; what the standard library throws becomes one.
template <typename Call>
maypole_status Run(const Call& call) {
  try {
    return Report(call());
  } catch (const std::bad_alloc&) {
    return Report({ErrorCode::kResourceExhausted, "out of memory", ""});
  } catch (const std::exception& error) {
    return Report({ErrorCode::kInternal, error.what(), ""});
  }
}

// 1 if `call` says so, or throws: then maypole_wait tells why.
template <typename Call>
int IsSettled(const Call& call) {
  bool settled = true;
  Run([&]() -> Outcome {
    settled = call();
    return {};
  });
  return settled ? 1 : 0;
}

Outcome Missing(const char* argument) {
  return internal::InvalidArgument(std::string(argument) + " is NULL");
}

template <typename Check>
maypole_status Submit(maypole_session* session, maypole_op** op, const Check& check) {
  return Run([&]() -> Outcome {
    if (session == nullptr || op == nullptr) {
      return Missing(session == nullptr ? "session" : "op");
    }
    *op = nullptr;
    internal::OpRequest request;
    if (Outcome checked = check(request); !checked.ok()) {
      return checked;
    }
    auto made = std::make_unique<maypole_op>();
    Outcome submitted = session->session->Submit(std::move(request), made->op);
    if (submitted.ok()) {
      *op = made.release();
    }
    return submitted;
  });
}

internal::Caller CallerOf(const maypole_session& session) {
  const internal::ConnectSettings& settings = session.session->settings();
  return {settings.rank, settings.world_size};
}

// An op that only reads its tensor, which is one type for all ops.
internal::TensorArgument Reading(const void* data, std::uint64_t count) {
  return {const_cast<void*>(data), count};
}

internal::Session& SessionOf(const maypole_op& op) {
  return *op.op.session;
}

}  // namespace

extern "C" {

maypole_status maypole_connect(const maypole_connect_options* options, maypole_session** session) {
  return Run([&]() -> Outcome {
    if (session == nullptr) {
      return Missing("session");
    }
    *session = nullptr;
    internal::ConnectSettings settings;
    Outcome outcome = internal::ResolveConnectSettings(
        options, [](const char* name) { return std::getenv(name); }, settings);
    auto made = std::make_unique<maypole_session>();
    if (outcome.ok()) {
      outcome = internal::Session::Connect(settings, made->session);
    }
    if (outcome.ok()) {
      *session = made.release();
    }
    return outcome;
  });
}

void maypole_leave(maypole_session* session) {
  if (session != nullptr) {
    Run([&]() -> Outcome {
      session->session->Leave();
      return {};
    });
  }
}

void maypole_close(maypole_session* session) {
  if (session != nullptr) {
    Run([&]() -> Outcome {
      session->session->Close();
      return {};
    });
    delete session;
  }
}

int64_t maypole_rank(const maypole_session* session) {
  return session != nullptr ? std::int64_t{session->session->settings().rank} : -1;
}

int64_t maypole_world_size(const maypole_session* session) {
  return session != nullptr ? std::int64_t{session->session->settings().world_size} : -1;
}

int64_t maypole_local_rank(const maypole_session* session) {
  return session != nullptr ? std::int64_t{session->session->membership().local_rank} : -1;
}

int64_t maypole_local_world_size(const maypole_session* session) {
  return session != nullptr ? std::int64_t{session->session->membership().local_world_size} : -1;
}

int64_t maypole_nodes(const maypole_session* session) {
  return session != nullptr ? std::int64_t{session->session->membership().nodes} : -1;
}

maypole_status maypole_alloc(maypole_session* session, size_t bytes, void** memory) {
  return Run([&]() -> Outcome {
    if (session == nullptr || memory == nullptr) {
      return Missing(session == nullptr ? "session" : "memory");
    }
    *memory = nullptr;
    return session->session->Allocate(bytes, *memory);
  });
}

maypole_status maypole_free(maypole_session* session, void* memory) {
  return Run([&]() -> Outcome {
    if (session == nullptr) {
      return Missing("session");
    }
    return memory == nullptr ? Outcome{} : session->session->Free(memory);
  });
}

maypole_status maypole_all_reduce(maypole_session* session,
                                  void* data,
                                  uint64_t count,
                                  const maypole_op_options* options,
                                  maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckAllReduce({data, count}, options, request);
  });
}

maypole_status maypole_reduce_scatter(maypole_session* session,
                                      void* data,
                                      uint64_t count,
                                      const uint64_t* counts,
                                      const maypole_op_options* options,
                                      maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckBlocks(
        Collective::kReduceScatter, {data, count}, counts, options, CallerOf(*session), request);
  });
}

maypole_status maypole_all_gather(maypole_session* session,
                                  void* data,
                                  uint64_t count,
                                  const uint64_t* counts,
                                  const maypole_op_options* options,
                                  maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckBlocks(
        Collective::kAllGather, {data, count}, counts, options, CallerOf(*session), request);
  });
}

maypole_status maypole_broadcast(maypole_session* session,
                                 void* data,
                                 uint64_t count,
                                 int64_t root,
                                 const maypole_op_options* options,
                                 maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckRooted(
        Collective::kBroadcast, {data, count}, root, options, CallerOf(*session), request);
  });
}

maypole_status maypole_reduce(maypole_session* session,
                              void* data,
                              uint64_t count,
                              int64_t root,
                              const maypole_op_options* options,
                              maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckRooted(
        Collective::kReduce, {data, count}, root, options, CallerOf(*session), request);
  });
}

maypole_status maypole_all_to_all(maypole_session* session,
                                  const void* input,
                                  void* output,
                                  uint64_t count,
                                  const maypole_op_options* options,
                                  maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckAllToAll(
        Reading(input, count), output, options, CallerOf(*session), request);
  });
}

maypole_status maypole_send(maypole_session* session,
                            const void* data,
                            uint64_t count,
                            int64_t to,
                            const maypole_op_options* options,
                            maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckSide(
        internal::Side::kSend, Reading(data, count), to, options, CallerOf(*session), request);
  });
}

maypole_status maypole_recv(maypole_session* session,
                            void* data,
                            uint64_t count,
                            int64_t from,
                            const maypole_op_options* options,
                            maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckSide(
        internal::Side::kReceive, {data, count}, from, options, CallerOf(*session), request);
  });
}

maypole_status maypole_barrier(maypole_session* session,
                               const char* name,
                               double timeout,
                               maypole_op** op) {
  return Submit(session, op, [&](internal::OpRequest& request) {
    return internal::CheckBarrier(name, timeout, request);
  });
}

int maypole_test(maypole_op* op) {
  return IsSettled([&] { return op == nullptr || SessionOf(*op).IsSettled(op->op); });
}

int maypole_wait_for(maypole_op* op, double seconds) {
  return IsSettled([&] { return op == nullptr || SessionOf(*op).WaitFor(op->op, seconds); });
}

maypole_status maypole_wait(maypole_op* op) {
  return Run(
      [&]() -> Outcome { return op == nullptr ? Missing("op") : SessionOf(*op).Wait(op->op); });
}

const void* maypole_op_result(const maypole_op* op) {
  return op != nullptr ? op->op.result : nullptr;
}

void maypole_op_free(maypole_op* op) {
  if (op == nullptr) {
    return;
  }
  Run([&]() -> Outcome {
    SessionOf(*op).Finish(op->op);
    return {};
  });
  delete op;
}

const char* maypole_last_error(void) {
  return ThreadError().text.c_str();
}

const char* maypole_last_error_culprits(void) {
  return ThreadError().culprits.c_str();
}

const char* maypole_status_name(maypole_status status) {
  return status >= MAYPOLE_OK && status <= MAYPOLE_INTERNAL
             ? Name(static_cast<ErrorCode>(status)).data()
             : "unknown";
}

const char* maypole_version(void) {
  return internal::kVersion;
}

maypole_status maypole_get_agent_stats(maypole_session* session, maypole_agent_stats* stats) {
  return Run([&]() -> Outcome {
    if (session == nullptr || stats == nullptr) {
      return Missing(session == nullptr ? "session" : "stats");
    }
    maypole::StatsReply reply;
    Outcome outcome = session->session->Stats(reply);
    if (outcome.ok()) {
      *stats = {reply.ops,
                reply.wire_sent_bytes,
                reply.wire_received_bytes,
                reply.cpu_ns,
                reply.resident_bytes,
                reply.local_sum_ns,
                reply.wait_ns,
                reply.transfer_ns,
                {}};
      static_assert(sizeof(stats->algorithm) == sizeof(reply.algorithm));
      std::memcpy(stats->algorithm, reply.algorithm, sizeof(reply.algorithm) - 1);
    }
    return outcome;
  });
}

}  // extern "C"
