#!/bin/sh
# Uses the installed command as a first user would, in an empty folder, and checks what it says. Ends with
# another status than 0 at the first thing that is wrong.
#
# try_command.sh VERSION
set -eu
parse='example: image=u1[] label=i8[1]'

[ "$(ringfeed --version)" = "$1" ]
ringfeed make data --kind image --bytes 20MiB --files 4
ringfeed verify data/*

# The demonstration: two emulated devices, every row compared with what is in the files.
ringfeed feed data/* --parse "$parse" --shuffle 100 --batch 8 --passes 2 --devices emu:2 --step-ms 1 --verify

# A run that ends early, and one that goes on from its position: each record came once.
feed() {
  ringfeed feed data/* --parse "$parse" --shuffle-mode global --seed 7 --batch 8 --journal journal "$@"
}
feed --max-batches 5 --position-out position
feed --position-in position
ringfeed audit journal
