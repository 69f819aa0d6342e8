// Checks what a caller of maypole_all_reduce, maypole_broadcast, ... asks for, and says which
// elements it reads and writes.
//
// Pure. Errors: kInvalidArgument, naming the argument and its value.
#pragma once

#include <cstdint>

#include "client/include/maypole/maypole.h"
#include "client/src/op.h"
#include "collective/schedule.h"
#include "common/error_code.h"

namespace maypole::client::internal {

struct TensorArgument {
  void* data = nullptr;
  std::uint64_t count = 0;  // of elements
};

// The rank that calls.
struct Caller {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
};

// `options` may be null.
Outcome CheckAllReduce(TensorArgument tensor,
                       const maypole_op_options* options,
                       OpRequest& request);
// Of kReduceScatter and kAllGather. `counts` may be null, else has an entry for each rank.
Outcome CheckBlocks(collective::Collective collective,
                    TensorArgument tensor,
                    const std::uint64_t* counts,
                    const maypole_op_options* options,
                    Caller caller,
                    OpRequest& request);
// Of kBroadcast and kReduce.
Outcome CheckRooted(collective::Collective collective,
                    TensorArgument tensor,
                    std::int64_t root,
                    const maypole_op_options* options,
                    Caller caller,
                    OpRequest& request);
Outcome CheckAllToAll(TensorArgument input,
                      void* output,
                      const maypole_op_options* options,
                      Caller caller,
                      OpRequest& request);
enum class Side { kSend, kReceive };
Outcome CheckSide(Side side,
                  TensorArgument tensor,
                  std::int64_t other,
                  const maypole_op_options* options,
                  Caller caller,
                  OpRequest& request);

// Of a session that promises the same bits in every run: lets it be summed in the order of ranks.
Outcome MakeDeterministic(OpRequest& request);

// `name` may be null.
Outcome CheckBarrier(const char* name, double timeout, OpRequest& request);

}  // namespace maypole::client::internal
