#!/bin/sh
# Each header of the product compiles alone: headers_alone.sh COMPILER ROOT
#
# A header that some source includes before anything else is compiled alone by the build already; the others are
# compiled here.
set -eu
compiler=$1
cd "$2"
folders="sim models topology parallelism scenarios validation cli"
# shellcheck disable=SC2086  # words on purpose
first=$(find $folders -name '*.cpp' -exec grep -m 1 -h '^#include' {} + | sed -n 's/^#include "\(.*\)"$/\1/p' | sort -u)
# shellcheck disable=SC2086
find $folders -name '*.h' | sort | grep -v -x -F "$first" |
  xargs -P "$(nproc)" -I HEADER sh -c '
    echo "#include \"$1\"" |
      "$0" -std=c++20 -fsyntax-only -Wall -Wextra -x c++ -I. -isystem /usr/include/eigen3 - ||
      { echo "does not compile alone: $1" >&2; exit 255; }' "$compiler" HEADER
echo "every header compiles alone"
