// The way to a coordinator, for agents and tools.
#pragma once

#include <grpcpp/support/channel_arguments.h>

namespace maypole {

// The coordinator is in the cluster; a proxy meant for the world outside is not the way to it. The
// status of a large cluster is larger than gRPC takes by default (4 MiB).
inline grpc::ChannelArguments CoordinatorChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(256 << 20);
  return arguments;
}

}  // namespace maypole
