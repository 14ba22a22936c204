#!/bin/sh
# Makes the namespace of the moves, unless it is there. Its retention is how long a finished move can be looked at.
# Address and namespace come from TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.
set -eu

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 30d
