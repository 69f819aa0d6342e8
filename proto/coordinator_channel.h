// The way to a coordinator, for agents and tools.
#pragma once

#include <grpcpp/support/channel_arguments.h>

namespace maypole {

// The coordinator is in the cluster; a proxy meant for the world outside is not the way to it.
inline grpc::ChannelArguments CoordinatorChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace maypole
