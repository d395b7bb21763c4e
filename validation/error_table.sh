#!/bin/sh
# Forecasts every scored run and renews validation/data/forecasts.csv and the table of errors in README.md.
# Usage: bash validation/error_table.sh [path of the stepcast binary]
set -eu
cd "$(dirname "$0")/.."
stepcast=${1:-build/release/cli/stepcast}
data=validation/data
validate() {
  "$stepcast" validate $data/runs.csv --only $data/scored.txt --no-ranges "$@"
}
# An interrupted run leaves what is committed.
table=$(mktemp)
trap 'rm -f "$table" "$table.md" "$table.csv"' EXIT
validate --format csv --output "$table.csv"
validate --quiet --error-table $data/fitted.txt >"$table"
awk -v table="$table" '
  /<!-- error table: end -->/ { while ((getline line < table) > 0) print line; skip = 0 }
  !skip
  /<!-- error table: begin/ { skip = 1 }
' README.md >"$table.md"
cp "$table.csv" $data/forecasts.csv
cp "$table.md" README.md
