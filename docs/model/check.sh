#!/usr/bin/env bash
# Checks claim.pml: what must hold holds, and each rule that is taken away is missed. Needs spin and a C compiler.
# `check.sh -q` leaves out the wider bounds.
set -euo pipefail

for tool in spin gcc; do
    command -v "$tool" >/dev/null || { echo "$0: '$tool' is not installed (Debian and Ubuntu: apt-get install $tool)" >&2; exit 2; }
done

model=$(cd "$(dirname "$0")" && pwd)/claim.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quick=${1:-}

# check <holds|fails> <name> <defines> <what it says>
check() {
    local expected=$1 name=$2 defines=$3 meaning=$4 search=-DSAFETY accept= optimise=-O0 found numbers
    mkdir "$work/$name" && cd "$work/$name"
    [[ $defines == *PROPERTY_* ]] && search= accept=-a
    # shellcheck disable=SC2086  # the flags are words of their own
    {
        cp "$model" claim.pml
        spin -a $defines claim.pml >spin.log || { cat spin.log >&2; exit 1; }
        [[ $expected == holds ]] && optimise=-O2
        gcc $optimise -w -DCOLLAPSE -DMEMLIM=950 $search -o pan pan.c
        ./pan -n -m5000 -w22 $accept >pan.log 2>&1 || true
    }
    if grep -q 'errors: 0' pan.log && ! grep -Eq 'too small|MEMLIM|out of memory' pan.log; then
        found=holds
    elif grep -q 'errors: [1-9]' pan.log && ! grep -Eq 'too small|MEMLIM|out of memory' pan.log; then
        found=fails
    else
        found=unknown
    fi
    numbers=$(awk '/states, stored/ {s = $1} /depth reached/ {d = $6; sub(",", "", d)} END {printf "%9.0f states, depth %3d", s, d}' pan.log)
    case $expected/$found in
        holds/holds) echo "verified          $numbers  $name: $meaning" ;;
        fails/fails) echo "violated, rightly $numbers  $name: $meaning" ;;
        holds/fails) echo "VIOLATED          $numbers  $name: $meaning"; grep 'pan:1:' pan.log; spin -t -p $defines claim.pml | tail -n 80 ;;
        fails/holds) echo "NOT VIOLATED      $numbers  $name: the model no longer notices: $meaning" ;;
        *) echo "NOT FINISHED      $numbers  $name"; tail -n 5 pan.log ;;
    esac
    [[ $expected == "$found" ]] || echo "$name" >>"$work/wrong"
}

# Two lanes of about the same length, for two cores.
proofs() {
    check holds safe "-DFAULTS=3" "every assertion, 2 dispatchers, 1 observer, 3 faults"
    [[ $quick == -q ]] || check holds safe-observers "-DOBSERVERS=2 -DFAULTS=1" "every assertion, 2 observers, 1 fault"
    check holds final "-DPROPERTY_FINAL -DFAULTS=1" "an ended job stays ended, and nothing of it runs"
    check holds listed "-DPROPERTY_LISTED -DFAULTS=1" "a job is in the ready list exactly while it is queued"
    check holds moves "-DMOVES -DFAULTS=2" "every assertion, with a move to another region at any moment, 2 faults"
    check holds CANCEL_ENDS_CLAIM "-DCANCEL_ENDS_CLAIM -DPROPERTY_SETTLES -DFAULTS=1" "a cancel could end a claimed job at once"
}

histories() {
    check holds settles "-DPROPERTY_SETTLES -DFAULTS=2" "the job ends, and nothing but what is its own is left"
    [[ $quick == -q ]] || check holds safe-dispatchers "-DDISPATCHERS=3 -DFAULTS=1" "every assertion, 3 dispatchers, 1 fault"
    check fails NO_FENCE "-DNO_FENCE" "a commit without the fence"
    check fails UNSUSPENDED "-DUNSUSPENDED" "objects that are created running"
    check fails NO_STATE "-DNO_STATE" "a commit on the fence alone, claimed or not"
    check fails NO_ANNOTATION_TEST "-DNO_ANNOTATION_TEST" "a release that does not test the annotation"
    check fails REFUSED_DELETES "-DREFUSED_DELETES" "a refused commit deletes the object that it had adopted"
    check fails STALE_ABSENCE "-DSTALE_ABSENCE" "absence judged by what was seen before the head was read"
    check fails IGNORE_PODS "-DIGNORE_PODS" "an object counts as gone while its pods still stop"
    check fails REQUEUE_SAME "-DREQUEUE_SAME" "a committed object that vanished is made anew under the same execution"
    check fails EARLY_END "-DEARLY_END" "an execution ended by the clock while its object stands"
    check fails RETRY_FORGETS_MARK "-DRETRY_FORGETS_MARK -DFAULTS=1" "a retry that takes the user's mark away"
    check fails TTL "-DTTL" "Kubernetes removes ended objects before their end is recorded"
    check fails EVENTS_ONLY "-DEVENTS_ONLY -DPROPERTY_SETTLES" "absence noticed only when it is told, before the commit as well as after"
    check fails MOVE_KEEPS_FENCE "-DMOVES -DMOVE_KEEPS_FENCE -DFAULTS=1" "a move that leaves the fence as it is"
    check fails STOP_ANYWHERE "-DMOVES -DSTOP_ANYWHERE -DFAULTS=1" "a stop that a worker of the old region completes"
    check fails NO_SWEEPER "-DNO_SWEEPER -DPROPERTY_SETTLES" "nobody sees to overdue claims"
}

started=$SECONDS
(proofs) & first=$!
(histories) & second=$!
wait "$first"; wait "$second"
echo "$((SECONDS - started)) s"
if [[ -s $work/wrong ]]; then
    echo "not as expected: $(paste -sd ' ' "$work/wrong")" >&2
    exit 1
fi
