#!/usr/bin/env bash
# Did this change make the step slower? Compares recordings of the branch with those kept from the main branch.
#
#   examples/ci/gate.sh MAIN BRANCH [PERCENT]      files or folders; writes comment.md; exit 1 when slower by more than PERCENT (3),
#                                                  5 when the recordings cannot tell
set -euo pipefail
main=$1 branch=$2 percent=${3:-3}
foretrace=${FORETRACE:-foretrace}
if [ ! -e "$main" ]; then
  echo "nothing recorded on the main branch yet: this recording becomes the first" | tee comment.md
  exit 0
fi
status=0
"$foretrace" compare "$main" "$branch" --gate "$percent" --markdown -o comment.md || status=$?
cat comment.md
# 1: slower. 5: the recordings cannot tell; `--inconclusive pass` lets that through. Anything else is a question that could not be
# answered, and fails too.
exit "$status"
