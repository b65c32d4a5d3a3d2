#!/bin/sh
# A hook in the shell, for `format: text` and a value of one number: prints "STEP VALUE" for each event.
while read -r line; do
  case $line in *'"arrays":[]'*) continue ;; esac # the start and the end of the run or of a pass
  step=${line#*'"step":'}
  read -r value # the array: a row a line
  echo "${step%%,*} $value"
done
