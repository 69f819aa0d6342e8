// A connected maypole_session for tests, and the words of its errors.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "maypole/maypole.h"

namespace maypole::test {

struct CloseSession {
  void operator()(maypole_session* session) const { maypole_close(session); }
};

using SessionPtr = std::unique_ptr<maypole_session, CloseSession>;

struct FreeOp {
  void operator()(maypole_op* op) const { maypole_op_free(op); }
};

using OpPtr = std::unique_ptr<maypole_op, FreeOp>;

inline maypole_status TryConnect(const std::string& path,
                                 SessionPtr& session,
                                 std::int64_t rank = 0,
                                 std::int64_t world_size = 1,
                                 double timeout = 10) {
  const maypole_connect_options options = {path.c_str(), "job", rank, world_size, timeout};
  maypole_session* connected = nullptr;
  const maypole_status status = maypole_connect(&options, &connected);
  session.reset(connected);
  return status;
}

inline SessionPtr Connect(const std::string& path) {
  SessionPtr session;
  EXPECT_EQ(TryConnect(path, session), MAYPOLE_OK) << maypole_last_error();
  return session;
}

inline OpPtr AllReduce(const SessionPtr& session,
                       void* data,
                       std::uint64_t count,
                       const maypole_op_options& options = {}) {
  maypole_op* op = nullptr;
  EXPECT_EQ(maypole_all_reduce(session.get(), data, count, &options, &op), MAYPOLE_OK)
      << maypole_last_error();
  return OpPtr(op);
}

inline float* AllocateFloats(const SessionPtr& session, std::size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(maypole_alloc(session.get(), count * sizeof(float), &memory), MAYPOLE_OK)
      << maypole_last_error();
  return static_cast<float*>(memory);
}

}  // namespace maypole::test
