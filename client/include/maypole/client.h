// Maypole client, C++20 face of maypole.h: the same functions with owners and exceptions.
// Header-only; std only.
//
//   auto session = maypole::client::Session::Connect();           // from the environment
//   std::span<float> gradient = session.Allocate<float>(1 << 20);  // zero-copy memory
//   session.AllReduce(gradient, {.reduction = MAYPOLE_MEAN, .name = "layer1"}).Wait();
#ifndef MAYPOLE_CLIENT_H_
#define MAYPOLE_CLIENT_H_

#if __cplusplus < 202002L
#error "maypole/client.h needs C++20 (-std=c++20); maypole/maypole.h is C99"
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "maypole/maypole.h"

namespace maypole::client {

class Error : public std::runtime_error {
 public:
  Error(maypole_status status, const std::string& text, std::string culprits)
      : std::runtime_error(text), status_(status), culprits_(std::move(culprits)) {}

  maypole_status status() const { return status_; }

  // "ranks=3,5;hosts=node-b"; "" if nobody in particular.
  const std::string& culprits() const { return culprits_; }

 private:
  maypole_status status_;
  std::string culprits_;
};

inline void Check(maypole_status status) {
  if (status != MAYPOLE_OK) {
    throw Error(status, maypole_last_error(), maypole_last_error_culprits());
  }
}

// The maypole_dtype of a C++ element type. Half types have none: call with the dtype.
template <typename T>
constexpr maypole_dtype DTypeOf() {
  if constexpr (std::is_same_v<T, float>) {
    return MAYPOLE_F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return MAYPOLE_F64;
  } else {
    static_assert(
        std::is_integral_v<T> && !std::is_same_v<T, bool> &&
            (std::is_signed_v<T> ? sizeof(T) != 2 : sizeof(T) == 1),
        "Maypole reduces float, double, 8-bit integers, and signed 32- and 64-bit integers");
    return !std::is_signed_v<T> ? MAYPOLE_U8
           : sizeof(T) == 1     ? MAYPOLE_I8
           : sizeof(T) == 4     ? MAYPOLE_I32
                                : MAYPOLE_I64;
  }
}

// As maypole_op_options.
struct OpOptions {
  maypole_reduction reduction = MAYPOLE_SUM;
  std::string name;  // empty: unnamed
  int priority = 0;
  double timeout = 0;  // seconds; 0: the agent's default
  maypole_algorithm algorithm = MAYPOLE_AUTO;
  bool shared_result = false;
  bool overwrite = false;
};

// An op in flight. Its end waits for the op; a result or an error that nobody waited for is
// dropped.
class Op {
 public:
  explicit Op(maypole_op* op) : op_(op) {}

  // Throws Error.
  void Wait() { Check(maypole_wait(op_.get())); }

  bool WaitFor(double seconds) { return maypole_wait_for(op_.get(), seconds) != 0; }

  bool Test() { return maypole_test(op_.get()) != 0; }

  // The shared result, valid as long as this Op; null for ops in place.
  template <typename T>
  const T* Result() const {
    return static_cast<const T*>(maypole_op_result(op_.get()));
  }

 private:
  struct Free {
    void operator()(maypole_op* op) const { maypole_op_free(op); }
  };

  std::unique_ptr<maypole_op, Free> op_;
};

// A rank's membership in its job. The memory it allocates ends with it.
class Session {
 public:
  // Throws Error. All from the environment, unless said otherwise.
  static Session Connect(const maypole_connect_options& options = {}) {
    maypole_session* session = nullptr;
    Check(maypole_connect(&options, &session));
    return Session(session);
  }

  std::int64_t rank() const { return maypole_rank(session_.get()); }

  std::int64_t world_size() const { return maypole_world_size(session_.get()); }

  std::int64_t local_rank() const { return maypole_local_rank(session_.get()); }

  std::int64_t local_world_size() const { return maypole_local_world_size(session_.get()); }

  std::int64_t nodes() const { return maypole_nodes(session_.get()); }

  // `count` zeroed elements that the agent reads in place; freed with the session or by Free.
  template <typename T>
  std::span<T> Allocate(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) {
      throw Error(MAYPOLE_INVALID_ARGUMENT, "count " + std::to_string(count) + " is too large", "");
    }
    void* memory = nullptr;
    Check(maypole_alloc(session_.get(), count * sizeof(T), &memory));
    return {static_cast<T*>(memory), count};
  }

  template <typename T>
  void Free(std::span<T> memory) {
    Check(maypole_free(session_.get(), memory.data()));
  }

  // Each collective twice: with a span of elements, whose type has a maypole_dtype, and with a
  // pointer, a count and a dtype, which half types need. maypole.h says what each reads and writes.
  // The memory must stay valid and untouched until Op::Wait. `counts`: the elements of each rank's
  // block; empty: equal blocks.

  template <typename T>
  [[nodiscard]] Op AllReduce(std::span<T> data, const OpOptions& options = {}) {
    return AllReduce(data.data(), data.size(), DTypeOf<T>(), options);
  }

  [[nodiscard]] Op AllReduce(void* data,
                             std::uint64_t count,
                             maypole_dtype dtype,
                             const OpOptions& options = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_all_reduce(session_.get(), data, count, given, op);
    });
  }

  template <typename T>
  [[nodiscard]] Op ReduceScatter(std::span<T> data,
                                 const OpOptions& options = {},
                                 std::span<const std::uint64_t> counts = {}) {
    return ReduceScatter(data.data(), data.size(), DTypeOf<T>(), options, counts);
  }

  [[nodiscard]] Op ReduceScatter(void* data,
                                 std::uint64_t count,
                                 maypole_dtype dtype,
                                 const OpOptions& options = {},
                                 std::span<const std::uint64_t> counts = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_reduce_scatter(session_.get(), data, count, Table(counts), given, op);
    });
  }

  template <typename T>
  [[nodiscard]] Op AllGather(std::span<T> data,
                             const OpOptions& options = {},
                             std::span<const std::uint64_t> counts = {}) {
    return AllGather(data.data(), data.size(), DTypeOf<T>(), options, counts);
  }

  [[nodiscard]] Op AllGather(void* data,
                             std::uint64_t count,
                             maypole_dtype dtype,
                             const OpOptions& options = {},
                             std::span<const std::uint64_t> counts = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_all_gather(session_.get(), data, count, Table(counts), given, op);
    });
  }

  template <typename T>
  [[nodiscard]] Op Broadcast(std::span<T> data, std::int64_t root, const OpOptions& options = {}) {
    return Broadcast(data.data(), data.size(), DTypeOf<T>(), root, options);
  }

  [[nodiscard]] Op Broadcast(void* data,
                             std::uint64_t count,
                             maypole_dtype dtype,
                             std::int64_t root,
                             const OpOptions& options = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_broadcast(session_.get(), data, count, root, given, op);
    });
  }

  template <typename T>
  [[nodiscard]] Op Reduce(std::span<T> data, std::int64_t root, const OpOptions& options = {}) {
    return Reduce(data.data(), data.size(), DTypeOf<T>(), root, options);
  }

  [[nodiscard]] Op Reduce(void* data,
                          std::uint64_t count,
                          maypole_dtype dtype,
                          std::int64_t root,
                          const OpOptions& options = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_reduce(session_.get(), data, count, root, given, op);
    });
  }

  template <typename T>
  [[nodiscard]] Op AllToAll(std::span<const std::type_identity_t<T>> input,
                            std::span<T> output,
                            const OpOptions& options = {}) {
    if (input.size() != output.size()) {
      throw Error(MAYPOLE_INVALID_ARGUMENT,
                  "input has " + std::to_string(input.size()) + " elements and output " +
                      std::to_string(output.size()) + "; they must have as many",
                  "");
    }
    return AllToAll(input.data(), output.data(), input.size(), DTypeOf<T>(), options);
  }

  [[nodiscard]] Op AllToAll(const void* input,
                            void* output,
                            std::uint64_t count,
                            maypole_dtype dtype,
                            const OpOptions& options = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_all_to_all(session_.get(), input, output, count, given, op);
    });
  }

  template <typename T>
  [[nodiscard]] Op Send(std::span<T> data, std::int64_t to, const OpOptions& options = {}) {
    return Send(data.data(), data.size(), DTypeOf<std::remove_const_t<T>>(), to, options);
  }

  [[nodiscard]] Op Send(const void* data,
                        std::uint64_t count,
                        maypole_dtype dtype,
                        std::int64_t to,
                        const OpOptions& options = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_send(session_.get(), data, count, to, given, op);
    });
  }

  template <typename T>
  [[nodiscard]] Op Recv(std::span<T> data, std::int64_t from, const OpOptions& options = {}) {
    return Recv(data.data(), data.size(), DTypeOf<T>(), from, options);
  }

  [[nodiscard]] Op Recv(void* data,
                        std::uint64_t count,
                        maypole_dtype dtype,
                        std::int64_t from,
                        const OpOptions& options = {}) {
    return Submit(dtype, options, [&](const maypole_op_options* given, maypole_op** op) {
      return maypole_recv(session_.get(), data, count, from, given, op);
    });
  }

  [[nodiscard]] Op Barrier(const std::string& name = {}, double timeout = 0) {
    maypole_op* op = nullptr;
    Check(maypole_barrier(session_.get(), name.empty() ? nullptr : name.c_str(), timeout, &op));
    return Op(op);
  }

  maypole_agent_stats AgentStats() {
    maypole_agent_stats stats;
    Check(maypole_get_agent_stats(session_.get(), &stats));
    return stats;
  }

  // For calls of maypole.h.
  maypole_session* get() const { return session_.get(); }

 private:
  explicit Session(maypole_session* session) : session_(session) {}

  template <typename Call>
  static Op Submit(maypole_dtype dtype, const OpOptions& options, const Call& call) {
    const maypole_op_options given = {
        dtype,
        options.reduction,
        options.name.empty() ? nullptr : options.name.c_str(),
        options.priority,
        options.timeout,
        options.algorithm,
        options.shared_result ? 1 : 0,
        options.overwrite ? 1 : 0,
    };
    maypole_op* op = nullptr;
    Check(call(&given, &op));
    return Op(op);
  }

  const std::uint64_t* Table(std::span<const std::uint64_t> counts) const {
    if (!counts.empty() && counts.size() != static_cast<std::size_t>(world_size())) {
      throw Error(MAYPOLE_INVALID_ARGUMENT,
                  std::to_string(counts.size()) + " counts were given for " +
                      std::to_string(world_size()) + " ranks; there must be one for each",
                  "");
    }
    return counts.empty() ? nullptr : counts.data();
  }

  struct Close {
    void operator()(maypole_session* session) const { maypole_close(session); }
  };

  std::unique_ptr<maypole_session, Close> session_;
};

}  // namespace maypole::client

#endif  // MAYPOLE_CLIENT_H_
