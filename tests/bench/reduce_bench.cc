// How fast the agent sums, beside a loop written by hand for the one case, and beside memcpy.
//
//   reduce_bench [--benchmark_filter=...]
//
// bytes_per_second counts one operand (the "algorithm bandwidth"), not memory traffic. With
// threads:2 the elements are split; the time column is then half the wall time. BM_Pieces is what
// the agent does: the tensor in slices, through a ReducePool, the loop's thread working along.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "agent/reduce/reduce_pool.h"
#include "agent/reduce/work.h"

namespace maypole::agent {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// Touched memory of its own mapping, as segments are.
class Buffer {
 public:
  Buffer(std::size_t bytes, int fill)
      : bytes_(bytes),
        address_(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    std::memset(address_, fill, bytes);
  }

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  ~Buffer() { ::munmap(address_, bytes_); }

  BufferView view() const { return {MemoryKind::kHost, static_cast<std::byte*>(address_), bytes_}; }

  float* floats() const { return static_cast<float*>(address_); }

 private:
  std::size_t bytes_;
  void* address_;
};

// The buffers of one benchmark, shared by its threads.
std::vector<std::unique_ptr<Buffer>> g_buffers;

void MakeBuffers(const benchmark::State& state, std::size_t count, std::size_t bytes) {
  if (state.thread_index() == 0) {
    g_buffers.clear();
    for (std::size_t i = 0; i < count; ++i) {
      g_buffers.push_back(
          std::make_unique<Buffer>(bytes, 0));  // zeros stay zeros however often they are summed
    }
  }
}

Operand OperandOf(const BufferView& buffer, DType dtype, ElementRange range) {
  const std::size_t size = SizeOf(dtype);
  return {buffer.Sub(range.begin * size, range.size() * size), dtype};
}

ElementRange ShareOf(const benchmark::State& state, ElementCount elements) {
  const auto threads = static_cast<ElementCount>(state.threads());
  const auto index = static_cast<ElementCount>(state.thread_index());
  return {elements * index / threads, elements * (index + 1) / threads};
}

// Threads share the bytes: each accounts for its part.
void Account(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

ReduceWork InPlace(std::size_t buffers, DType dtype, Reduction reduction, ElementRange range) {
  ReduceWork work;
  work.accumulator = AccumulatorOf(dtype);
  work.reduction = reduction;
  work.divisor = reduction == Reduction::kMean ? buffers : 0;
  work.elements = range.size();
  for (std::size_t r = 0; r < buffers; ++r) {
    work.inputs.push_back(OperandOf(g_buffers[r]->view(), dtype, range));
  }
  work.outputs = work.inputs;
  return work;
}

// ---- in place: every buffer becomes the sum of all. Arguments: buffers, bytes of each.

void BM_InPlaceByHand(benchmark::State& state) {
  const auto buffers = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  MakeBuffers(state, buffers, bytes);
  const ElementRange range = ShareOf(state, bytes / 4);
  for (auto _ : state) {
    float* a = g_buffers[0]->floats();
    float* b = g_buffers[1]->floats();
    if (buffers == 2) {
      for (ElementCount i = range.begin; i < range.end; ++i) {
        const float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
      }
    } else {
      float* c = g_buffers[2]->floats();
      float* d = g_buffers[3]->floats();
#pragma GCC ivdep
      for (ElementCount i = range.begin; i < range.end; ++i) {
        const float sum = a[i] + b[i] + c[i] + d[i];
        a[i] = sum;
        b[i] = sum;
        c[i] = sum;
        d[i] = sum;
      }
    }
    benchmark::ClobberMemory();
  }
  Account(state, range.size() * 4);
}

// The floor of the comparison with peers: blocks in the first-level cache, summed into the first
// buffer, then copied.
void BM_InPlaceByBlocks(benchmark::State& state) {
  const auto buffers = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  MakeBuffers(state, buffers, bytes);
  const ElementRange range = ShareOf(state, bytes / 4);
  constexpr ElementCount kBlock = 1024;
  for (auto _ : state) {
    for (ElementCount begin = range.begin; begin < range.end; begin += kBlock) {
      const ElementCount n = std::min(kBlock, range.end - begin);
      float* sum = g_buffers[0]->floats() + begin;
      for (std::size_t r = 1; r < buffers; ++r) {
        const float* other = g_buffers[r]->floats() + begin;
#pragma GCC ivdep
        for (ElementCount i = 0; i < n; ++i) {
          sum[i] += other[i];
        }
      }
      for (std::size_t r = 1; r < buffers; ++r) {
        std::memcpy(g_buffers[r]->floats() + begin, sum, n * 4);
      }
    }
    benchmark::ClobberMemory();
  }
  Account(state, range.size() * 4);
}

template <DType kDType, Reduction kReduction>
void BM_InPlace(benchmark::State& state) {
  const auto buffers = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  MakeBuffers(state, buffers, bytes);
  const ElementRange range = ShareOf(state, bytes / SizeOf(kDType));
  ReduceWork work;
  for (auto _ : state) {
    if (work.elements == 0) {
      work = InPlace(buffers, kDType, kReduction, range);
    }
    Reduce(work);
  }
  Account(state, range.size() * SizeOf(kDType));
}

// The same with an undo copy of every buffer.
void BM_InPlaceSaved(benchmark::State& state) {
  const auto buffers = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  MakeBuffers(state, 2 * buffers, bytes);
  const ElementRange range = ShareOf(state, bytes / 4);
  ReduceWork work;
  for (auto _ : state) {
    if (work.elements == 0) {
      work = InPlace(buffers, DType::kF32, Reduction::kSum, range);
      for (std::size_t r = 0; r < buffers; ++r) {
        const Operand target = OperandOf(g_buffers[buffers + r]->view(), DType::kF32, range);
        work.saves.push_back({work.inputs[r].buffer, target.buffer});
      }
    }
    Reduce(work);
  }
  Account(state, range.size() * 4);
}

// Through the pool. Arguments: buffers, bytes of each, bytes of a slice, threads of the pool.
void BM_Pieces(benchmark::State& state) {
  const auto buffers = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const auto slice = static_cast<ElementCount>(state.range(2)) / 4;
  MakeBuffers(state, buffers, bytes);
  ReducePool pool(static_cast<int>(state.range(3)));
  std::vector<std::uint64_t> done;
  for (auto _ : state) {
    for (ElementCount begin = 0; begin < bytes / 4; begin += slice) {
      const ElementRange range{begin, std::min(begin + slice, bytes / 4)};
      pool.Submit(begin, InPlace(buffers, DType::kF32, Reduction::kSum, range));
    }
    while (pool.Pending() > 0) {
      pool.RunOne();
      done.clear();
      pool.TakeDone(done);
    }
  }
  Account(state, bytes);
}

// ---- out of place. Arguments: inputs, bytes of each.

template <DType kDType>
void BM_OutOfPlace(benchmark::State& state) {
  const auto inputs = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  MakeBuffers(state, inputs + 1, bytes);
  const ElementRange range = ShareOf(state, bytes / SizeOf(kDType));
  ReduceWork work;
  for (auto _ : state) {
    if (work.elements == 0) {
      work = InPlace(inputs, kDType, Reduction::kSum, range);
      work.outputs = {OperandOf(g_buffers.back()->view(), kDType, range)};
    }
    Reduce(work);
  }
  Account(state, range.size() * SizeOf(kDType));
}

// ---- copies. Arguments: outputs, bytes.

void BM_Memcpy(benchmark::State& state) {
  const auto outputs = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  MakeBuffers(state, outputs + 1, bytes);
  const ElementRange range = ShareOf(state, bytes);
  for (auto _ : state) {
    for (std::size_t m = 1; m <= outputs; ++m) {
      std::memcpy(g_buffers[m]->view().address + range.begin,
                  g_buffers[0]->view().address + range.begin,
                  range.size());
    }
    benchmark::ClobberMemory();
  }
  Account(state, range.size());
}

void BM_Copy(benchmark::State& state) {
  const auto outputs = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  MakeBuffers(state, outputs + 1, bytes);
  const ElementRange range = ShareOf(state, bytes / 4);
  ReduceWork work;
  for (auto _ : state) {
    if (work.elements == 0) {
      work = InPlace(1, DType::kF32, Reduction::kSum, range);
      work.outputs.clear();
      for (std::size_t m = 1; m <= outputs; ++m) {
        work.outputs.push_back(OperandOf(g_buffers[m]->view(), DType::kF32, range));
      }
    }
    Reduce(work);
  }
  Account(state, range.size() * 4);
}

void Sizes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t buffers : {2, 4}) {
    for (const std::int64_t bytes : {kMiB, 25 * kMiB, 64 * kMiB}) {
      bench->Args({buffers, bytes});
    }
  }
  bench->Threads(1)->Threads(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

void Copies(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t outputs : {1, 3}) {
    for (const std::int64_t bytes : {kMiB / 4, kMiB, 25 * kMiB}) {
      bench->Args({outputs, bytes});
    }
  }
  bench->Threads(1)->Threads(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(BM_InPlaceByHand)->Apply(Sizes);
BENCHMARK(BM_InPlaceByBlocks)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kF32, Reduction::kSum>)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kF32, Reduction::kMean>)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kF32, Reduction::kMax>)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kF64, Reduction::kSum>)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kF16, Reduction::kSum>)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kBF16, Reduction::kSum>)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kI8, Reduction::kSum>)->Apply(Sizes);
BENCHMARK(BM_InPlace<DType::kI32, Reduction::kMean>)->Apply(Sizes);
BENCHMARK(BM_InPlaceSaved)->Apply(Sizes);
BENCHMARK(BM_OutOfPlace<DType::kF32>)->Apply(Sizes);
BENCHMARK(BM_OutOfPlace<DType::kBF16>)->Apply(Sizes);
BENCHMARK(BM_Memcpy)->Apply(Copies);
BENCHMARK(BM_Copy)->Apply(Copies);
BENCHMARK(BM_Pieces)
    ->ArgsProduct({{2, 4}, {kMiB, 25 * kMiB}, {64 << 10, 256 << 10, 1 << 20}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace maypole::agent

BENCHMARK_MAIN();
