// MPI_Allreduce; which algorithm and transport is up to mpirun's options.
#include <mpi.h>

#include "harness.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  peers::Harness(rank, ranks, [](float* data, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, int(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }).Run();
  MPI_Finalize();
}
