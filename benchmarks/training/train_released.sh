#!/usr/bin/env bash
# Train the shipped weights again: benchmarks/training/train_released.sh DATA [OUTPUT]
# DATA is ScoreDenoise's folder layout. 83 minutes on one NVIDIA H200.
set -euo pipefail
data=$1
output=${2:-runs}
pdflow train --data "$data" --recipe pdflow-base -o "$output/pdflow-base"
for name in pdflow-middle pdflow-fbm pdflow-lbm; do
  pdflow train --data "$data" --recipe "$name" -o "$output/$name" \
    --init "$output/pdflow-base/model.safetensors"
done
pdflow train --data "$data" --recipe pdflow-fast -o "$output/pdflow-fast" \
  --init "$output/pdflow-middle/model.safetensors"
pdflow train --data "$data" --recipe pdflow-wide -o "$output/pdflow-wide"
before=pdflow-wide
for name in pdflow-wide-middle pdflow-wide-all; do
  pdflow train --data "$data" --recipe "$name" -o "$output/$name" \
    --init "$output/$before/model.safetensors"
  before=$name
done
for name in pdflow-benchmark pdflow; do
  pdflow train --data "$data" --recipe "$name" -o "$output/$name" \
    --init "$output/pdflow-wide-all/model.safetensors"
done
pdflow train --data "$data" --recipe paper-lcc -o "$output/paper-lcc"
pdflow train --data "$data" --recipe pdflow-paper -o "$output/pdflow-paper" \
  --init "$output/paper-lcc/model.safetensors"
for name in paper-fbm paper-lbm; do  # kept in benchmarks/measured/training/paper
  pdflow train --data "$data" --recipe "$name" -o "$output/$name" --minutes 3 --anneal
done
