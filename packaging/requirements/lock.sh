#!/bin/sh
# Pins what the image and the .deb are made of, with hashes, for every Python from 3.10 on
# and every machine: `make lock`.
set -eu
cd "$(dirname "$0")/../.."

compile() { # OUTPUT ARGUMENTS...
  output=packaging/requirements/$1
  shift
  uv pip compile --quiet --upgrade --universal --python-version 3.10 \
    --fork-strategy fewest --generate-hashes --no-emit-index-url --no-header \
    --output-file "$output" "$@"
}

compile gcp.txt --extra gcp pyproject.toml
# One version of each package in all three.
compile base.txt --constraint packaging/requirements/gcp.txt pyproject.toml
echo hatchling | compile build.txt -
