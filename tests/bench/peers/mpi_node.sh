#!/bin/sh
# One node of an MPI run, started by `maypole local --netns` once per node: the first runs mpirun, whose daemons enter the others'
# network namespaces; the others wait. MEET is a folder that all share. Usage: mpi_node.sh mpirun ARGUMENT...
echo $$ >"$MEET/node.$RANK.new" && mv "$MEET/node.$RANK.new" "$MEET/node.$RANK"
if [ "$RANK" != 0 ]; then
  exec cat "$MEET/end.$RANK" # a named pipe: blocks until the first node closes it
fi
for rank in $(seq 1 $((WORLD_SIZE - 1))); do
  while [ ! -e "$MEET/node.$rank" ]; do sleep 0.05; done
done
unshare -u sh -c 'hostname maypole-node-0; exec "$@"' sh "$@"
code=$?
for rank in $(seq 1 $((WORLD_SIZE - 1))); do : >"$MEET/end.$rank"; done
exit $code
