// One piece of summing: k inputs to m outputs over the same elements. The core decides it, a thread
// of the pool (or the loop itself) does it; it is plain data so that the simulator can do it at any
// moment too.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/memory/buffer.h"
#include "common/dtype.h"
#include "common/quantity.h"

namespace maypole::agent {

// A typed run of elements. Element i of every operand of one work lies at address + i * its size.
// Addresses are aligned to the element size, no more.
struct Operand {
  BufferView buffer;
  DType dtype = DType::kF32;
};

// Semantics, for each element i, in the accumulator type A = AccumulatorOf(type of the tensor):
//   v = A(inputs[0][i])
//   for j = 1..: v = combine(v, A(inputs[j][i]))     strictly in list order (a left fold)
//   if received is set: v = combine(A(received[i]), v)
//   if divisor != 0: v = v / divisor                 integers truncate toward zero; floats round
//   outputs[m][i] = convert(v)                       to nearest even, in each output's own type
// Every operand is of type A or, if A is f32, of a half type.
// combine: sum and product wrap for integers; mean sums; min and max keep NaN, and -0 < +0.
// NaN: what comes out is the positive quiet NaN without payload, whatever went in; but a work that
//   only copies (one input, nothing received, no divisor, outputs of its type) keeps all bits.
// Saves: before any output element is written, saves[k] copies source[i] to target[i] bytewise
//   (undo of in-place ops).
// Aliasing: an input may be an output too (same address and type). Partial overlap is not allowed.
struct ReduceWork {
  struct Save {
    BufferView source;
    BufferView target;
  };

  DType accumulator = DType::kF32;
  Reduction reduction = Reduction::kSum;
  ElementCount elements = 0;
  std::uint64_t divisor = 0;
  std::vector<Operand> inputs;
  Operand received;  // unset if received.buffer.address is null
  std::vector<Operand> outputs;
  std::vector<Save> saves;
};

// Does the work on the calling thread, with the best instructions this CPU has. Never fails.
// Threads: any; works on disjoint memory may run at the same time.
void Reduce(const ReduceWork& work);

// The same by the plain definition above, element by element: the reference of the tests.
void ReduceReference(const ReduceWork& work);

// Name of the instruction set that Reduce uses here, e.g. "AVX2".
const char* ReduceTarget();

}  // namespace maypole::agent
