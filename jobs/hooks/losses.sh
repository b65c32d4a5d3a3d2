#!/bin/sh
# A shell hook for `format: text` and a scalar value: prints "STEP VALUE" for each event.
while read -r line; do
  case $line in *'"arrays":[]'*) continue ;; esac # events without arrays: start and end
  step=${line#*'"step":'}
  read -r value # the array: one line per row
  echo "${step%%,*} $value"
done
