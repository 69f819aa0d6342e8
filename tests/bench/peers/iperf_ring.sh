#!/bin/sh
# One node of a ring of TCP streams, started by `maypole local --netns` once per node: receives from the node before and sends to
# the next, all at once. MEET is a folder that all share; results land there as JSON.
next=$(((RANK + 1) % WORLD_SIZE))
iperf3 -s -1 -p 5299 >"$MEET/server.$RANK" 2>&1 &
server=$!
: >"$MEET/ready.$RANK"
for rank in $(seq 0 $((WORLD_SIZE - 1))); do
  while [ ! -e "$MEET/ready.$rank" ]; do sleep 0.05; done
done
sleep 0.3 # iperf3 says nothing when it listens
iperf3 -c "10.77.0.$((next + 1))" -p 5299 -t "${PEER_SECONDS%.*}" -J >"$MEET/client.$RANK"
code=$?
wait $server
exit $code
