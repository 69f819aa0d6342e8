/* Compiled as C99 with -pedantic -Werror: the header is what it says, and every value of its enums
 * is what it was. */
#include "maypole/maypole.h"

#define KEEPS(name, condition) typedef char name[(condition) ? 1 : -1]

KEEPS(statuses,
      MAYPOLE_OK == 0 && MAYPOLE_INVALID_ARGUMENT == 1 && MAYPOLE_MISMATCH == 2 &&
          MAYPOLE_PEER_LOST == 3 && MAYPOLE_TIMEOUT == 4 && MAYPOLE_AGENT_UNAVAILABLE == 5 &&
          MAYPOLE_RESOURCE_EXHAUSTED == 6 && MAYPOLE_FAILED_PRECONDITION == 7 &&
          MAYPOLE_INTERNAL == 8);
KEEPS(dtypes,
      MAYPOLE_F32 == 0 && MAYPOLE_F64 == 1 && MAYPOLE_F16 == 2 && MAYPOLE_BF16 == 3 &&
          MAYPOLE_I8 == 4 && MAYPOLE_U8 == 5 && MAYPOLE_I32 == 6 && MAYPOLE_I64 == 7);
KEEPS(reductions,
      MAYPOLE_SUM == 0 && MAYPOLE_MEAN == 1 && MAYPOLE_MIN == 2 && MAYPOLE_MAX == 3 &&
          MAYPOLE_PRODUCT == 4);
KEEPS(algorithms,
      MAYPOLE_AUTO == 0 && MAYPOLE_RING == 1 && MAYPOLE_DIRECT == 2 && MAYPOLE_NAIVE == 3);

/* The structs that ctypes lays out by hand, on a 64-bit machine. */
KEEPS(connect_options,
      sizeof(maypole_connect_options) == 48 && offsetof(maypole_connect_options, rank) == 16 &&
          offsetof(maypole_connect_options, timeout) == 32 &&
          offsetof(maypole_connect_options, deterministic) == 40);
KEEPS(all_reduce_options,
      sizeof(maypole_op_options) == 48 && offsetof(maypole_op_options, name) == 8 &&
          offsetof(maypole_op_options, priority) == 16 &&
          offsetof(maypole_op_options, timeout) == 24 &&
          offsetof(maypole_op_options, algorithm) == 32 &&
          offsetof(maypole_op_options, shared_result) == 36 &&
          offsetof(maypole_op_options, overwrite) == 40);
KEEPS(agent_stats,
      sizeof(maypole_agent_stats) == 80 && offsetof(maypole_agent_stats, algorithm) == 64);

int main(void) {
  return maypole_version()[0] == '\0';
}
