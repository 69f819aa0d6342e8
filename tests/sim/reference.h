// What must come out of an op: by the plain definition of each collective, and of each algorithm's
// association (collective/*.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/sim/workload.h"

namespace maypole::sim {

// inputs[m][k] is the tensor of the k-th rank of member m.
using Inputs = std::vector<std::vector<const Bytes*>>;

// The bits that every rank must get of an all-reduce.
std::vector<std::byte> ExpectedAllReduce(const OpSpec& op, const Inputs& inputs);

// The elements of the op's whole space (collective/parts.h). `tensors` by rank; null where a rank
// does not take part.
std::vector<std::byte> ExpectedSpace(const OpSpec& op,
                                     const collective::Placement& placement,
                                     const std::vector<const Bytes*>& tensors);

// `result` as the op must leave it at `rank`, given as it was before.
void PutExpected(const OpSpec& op,
                 const collective::Placement& placement,
                 std::uint32_t rank,
                 const std::vector<std::byte>& space,
                 std::vector<std::byte>& result);

Inputs ByMember(const collective::Placement& placement, const std::vector<const Bytes*>& tensors);

// The largest |result - float64 sum| relative to the sum of magnitudes; f32 and f64 sums and means.
double ErrorAgainstFloat64(const OpSpec& op,
                           const Inputs& inputs,
                           const std::vector<std::byte>& result);

}  // namespace maypole::sim
