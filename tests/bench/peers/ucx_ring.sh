#!/bin/sh
# One node of a ring of UCX streams, started by `maypole local --netns` once per node: receives from the node before and sends to
# the next, all at once, in active messages as large as a slice and with the agents' settings, asleep while nothing comes. MEET is
# a folder that all share; the last line of client.RANK has the rate (MiB/s, 6th column).
next=$(((RANK + 1) % WORLD_SIZE))
export UCX_TLS=tcp UCX_NET_DEVICES=eth0 UCX_ZCOPY_THRESH=inf UCX_TCP_TX_SEG_SIZE=64k UCX_TCP_CONN_NB=y
stdbuf -oL ucx_perftest -p 5298 -E sleep >"$MEET/server.$RANK" 2>&1 &
server=$!
for rank in $(seq 0 $((WORLD_SIZE - 1))); do
  until grep -qs Waiting "$MEET/server.$rank"; do sleep 0.05; done
done
ucx_perftest "10.77.0.$((next + 1))" -p 5298 -t ucp_am_bw -s 262144 -n 6000 -w 500 -O 2 -E sleep -f >"$MEET/client.$RANK"
code=$?
wait $server
exit $code
