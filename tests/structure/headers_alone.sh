#!/bin/sh
# Each header of the product compiles alone: headers_alone.sh COMPILER ROOT
set -eu
compiler=$1
cd "$2"
jobs=$(nproc)
find sim models topology parallelism scenarios validation cli -name '*.h' | sort |
  xargs -P "$jobs" -I HEADER sh -c '
    echo "#include \"$1\"" |
      "$0" -std=c++20 -fsyntax-only -Wall -Wextra -x c++ -I. -isystem /usr/include/eigen3 - ||
      { echo "does not compile alone: $1" >&2; exit 255; }' "$compiler" HEADER
echo "every header compiles alone"
