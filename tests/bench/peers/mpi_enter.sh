#!/bin/sh
# mpirun's "rsh": runs a command in the network namespace of the node that has the given address (10.77.0.RANK+1).
# Usage: mpi_enter.sh [-option ...] ADDRESS COMMAND...
while case $1 in -*) true ;; *) false ;; esac; do shift; done
rank=$((${1##*.} - 1))
shift
exec nsenter -t "$(cat "$MEET/node.$rank")" -n unshare -u sh -c "hostname maypole-node-$rank; $*"
