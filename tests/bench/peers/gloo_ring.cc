// Gloo's ring all-reduce. Ranks meet in the folder GLOO_STORE and talk over GLOO_INTERFACE.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "harness.h"

int main() {
  const int rank = std::stoi(peers::Variable("RANK", "0"));
  const int ranks = std::stoi(peers::Variable("WORLD_SIZE", "1"));
  gloo::transport::tcp::attr attributes;
  attributes.iface = peers::Variable("GLOO_INTERFACE", "lo");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(peers::Variable("GLOO_STORE", "/tmp/gloo-store"));
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->setTimeout(std::chrono::seconds(120));
  context->connectFullMesh(store, device);

  peers::Harness(rank, ranks, [&context](float* data, std::size_t count) {
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data, count);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }).Run();

  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
}
