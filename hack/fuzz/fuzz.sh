#!/bin/sh
# Fuzzes one target, package:function, for a time: `make fuzz` calls it. It has one core,
# so that two targets go side by side; most of a short one's time is not the fuzzing.
set -eu
package=./${1%:*} name=${1#*:} lasts=$2

code=0
out=$(go test -run '^$' -fuzz "^$name\$" -fuzztime "$lasts" -fuzzminimizetime 100x -parallel 1 "$package" 2>&1) || code=$?
printf 'go test -fuzz %s -fuzztime %s %s\n%s\n' "$name" "$lasts" "$package" "$out"
[ "$code" -ne 0 ] || exit 0

# go test fails when its time is up while it tries an input; only one that failed is a
# failure.
case $out in
*'Failing input'*) exit 1 ;;
*'context deadline exceeded'*) echo "fuzz: $name: the time was up while an input was tried; none has failed" ;;
*) exit 1 ;;
esac
