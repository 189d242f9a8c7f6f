#!/bin/bash -eu
# What OSS-Fuzz and ClusterFuzzLite run in the image that the Dockerfile beside this makes.
exec "$SRC/attest/ci/ossfuzz_build"
