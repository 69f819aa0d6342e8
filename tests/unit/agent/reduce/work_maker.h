// Makes the same ReduceWork over two equal copies of memory, so that what Reduce and
// ReduceReference leave behind can be compared byte by byte, outside of the operands too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "agent/reduce/work.h"

namespace maypole::agent {

// What a case consists of.
struct WorkShape {
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  std::size_t inputs = 1;
  std::size_t outputs = 1;
  bool has_received = false;
  DType received_dtype = DType::kF32;
  ElementCount elements = 0;
  std::uint64_t divisor = 0;
  std::size_t in_place = 0;  // so many of the outputs are inputs too
  bool saved = false;        // every output is saved first
  bool misaligned = true;    // operands start at any element, not at cache lines
};

class WorkMaker {
 public:
  WorkMaker(const WorkShape& shape, std::uint32_t seed);

  // The work over a copy of the memory that starts at `base`.
  ReduceWork At(std::byte* base) const;

  const std::vector<std::byte>& memory() const { return memory_; }

 private:
  struct Place {
    std::size_t offset = 0;
    DType dtype = DType::kF32;
  };

  Place NewPlace(DType dtype);
  void Fill(Place place);
  // Of the tensor's type, or, for half types, as often a partial sum.
  DType AnyDType();

  const WorkShape shape_;
  std::mt19937 random_;
  std::vector<std::byte> memory_;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::vector<Place> saves_;
  Place received_;
};

// A copy of `memory` at a multiple of 64.
struct FreeDeleter {
  void operator()(std::byte* address) const { std::free(address); }
};

using AlignedCopy = std::unique_ptr<std::byte[], FreeDeleter>;
AlignedCopy CopyOf(const std::vector<std::byte>& memory);

// Runs both on equal memory; true if they leave the same bytes.
bool ReduceAgreesWithReference(const WorkShape& shape, std::uint32_t seed);

}  // namespace maypole::agent
