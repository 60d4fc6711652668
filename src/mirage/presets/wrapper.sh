# Mirage: runs the batch script as a child of this shell, and passes the warning on.
#
# Slurm and the agent signal this shell alone. Every process of the job that handles the signal gets it, on every node,
# as soon as it handles it; launchers get nothing. The child ignores USR1 and USR2 until a handler is set, so that a
# signal in an import does not end it.
set +eu
export MIRAGE_WRAPPED="$SLURM_JOB_ID-$(cat /proc/sys/kernel/random/uuid)" # numbers of jobs repeat across clusters
case ${MIRAGE_STOP_FILE:-} in # a job that a wrapped job has submitted inherits the file of that one
    '' | *.mirage-stop-[0-9]*) export MIRAGE_STOP_FILE=${SLURM_SUBMIT_DIR:-.}/.mirage-stop-$SLURM_JOB_ID ;;
esac
unset MIRAGE_JOB_END_TIME
[ -n "${SLURM_JOB_END_TIME:-}" ] || [ "@LIMIT@" = 0 ] || export MIRAGE_JOB_END_TIME=$(($(date +%s) + @LIMIT@))
@EXPORTS@
case ${SLURM_EXPORT_ENV:-ALL} in # of --export=NONE or a list: srun would leave these out
    *ALL*) ;;
    NONE | NIL) SLURM_EXPORT_ENV=$(IFS=,; set -- "${!MIRAGE_@}" "${!TORCH@}"; echo "$*") ;;
    *) SLURM_EXPORT_ENV=$SLURM_EXPORT_ENV,$(IFS=,; set -- "${!MIRAGE_@}" "${!TORCH@}"; echo "$*") ;;
esac
mirage_stop= mirage_delivering= mirage_elsewhere=
mirage_report() { echo "mirage: $(date +%T) $*" >&2; }

mirage_deliver() { # NUMBER NAME SECONDS EXECUTABLE: signal the processes of this job on this node that handle it
    local number=$1 name=$2 end=$((SECONDS + $3)) executable=$4 done=" " pid key value dir own word program after
    while [ "$SECONDS" -lt "$end" ]; do
        local -A parent=() catches=()
        own=
        for dir in $(grep -lzFx "MIRAGE_WRAPPED=$MIRAGE_WRAPPED" /proc/[0-9]*/environ 2> /dev/null); do
            dir=${dir%/environ}
            for key in SLURMD_NODENAME SLURM_JOB_ID; do # a job that this one has submitted inherits the mark
                [ -n "${!key:-}" ] && grep -qz "^$key=" "$dir/environ" 2> /dev/null || continue
                grep -qzFx "$key=${!key}" "$dir/environ" 2> /dev/null || continue 2
            done
            own="$own ${dir#/proc/}"
        done
        # with their descendants: a container may have cleared the environment
        for pid in $(grep -H "^PPid:" /proc/[0-9]*/status 2> /dev/null | awk -F '[/:[:space:]]+' -v own="$own" '
            BEGIN { count = split(own, pids, " "); for (k = 1; k <= count; k++) marked[pids[k]] }
            { up[$3] = $6 }
            END { for (pid in up) { at = pid; while (at > 1 && !(at in marked)) at = up[at]; if (at in marked) print pid } }'); do
            dir=/proc/$pid
            while read -r key value _; do
                case $key in PPid:) parent[$pid]=$value ;; SigCgt:) catches[$pid]=$((0x$value >> (number - 1) & 1)) ;; esac
            done 2> /dev/null < "$dir/status"
            case $(readlink "$dir/exe") in
                */srun | */slurmstepd | */bash | */dash) catches[$pid]=0 ;;
                $executable) ;;
                *) catches[$pid]=0 ;;
            esac
            [ "${catches[$pid]:-0}" = 1 ] || continue
            program= after= # what Python runs, a file or a module, and the word after it
            while IFS= read -r -d '' word; do
                case $program in
                    '') program=options ;;
                    options) case $word in
                        -[WX]) program=value ;;
                        -m) program=module ;;
                        -c | [!-]*) program=$word ;;
                    esac ;;
                    value) program=options ;;
                    module) program=$word ;;
                    *) after=$word && break ;;
                esac
            done 2> /dev/null < "$dir/cmdline"
            case "$program $after" in
                torchrun\ * | */torchrun\ * | torch.distributed.run\ * | */torch/distributed/run.py\ * | \
                    torch.distributed.launch\ * | */torch/distributed/launch.py\ * | \
                    accelerate\ launch | */accelerate\ launch | accelerate-launch\ * | */accelerate-launch\ * | \
                    accelerate.commands.launch\ * | accelerate.commands.accelerate_cli\ launch | \
                    deepspeed\ * | */deepspeed\ * | deepspeed.launcher.* | */deepspeed/launcher/*.py\ * | \
                    -c\ *multiprocessing.resource_tracker* | *\ @OBSERVER@)
                    catches[$pid]=0 ;;
            esac
        done
        for pid in "${!catches[@]}"; do
            [ "${catches[$pid]}" = 1 ] || continue
            case $done in *" $pid "*) continue ;; esac
            value=${parent[$pid]:-0} # a worker that a trainer has forked inherits its handlers: it gets nothing
            while [ "$value" -gt 1 ] && [ "${catches[$value]:-0}" != 1 ]; do value=${parent[$value]:-0}; done
            [ "$value" -gt 1 ] && continue
            value=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$pid/status" 2> /dev/null) # no longer, while Python exits
            [ $((0x${value:-0} >> (number - 1) & 1)) = 1 ] || continue
            done="$done$pid " # reported first: once the trainers have left, this loop is ended
            echo "mirage: $(date +%T) $name to process $pid on ${SLURMD_NODENAME:-this node}: $(tr '\0' ' ' < "/proc/$pid/cmdline" | cut -c -60)" >&2
            kill -s "$name" "$pid" 2> /dev/null
        done
        sleep 1
    done
}

mirage_warn() { # SIGNAL: on the first warning, create the stop file and deliver the signal of the preset
    [ -z "$mirage_stop" ] || return 0
    mirage_stop=$1
    mirage_report "$1 has reached the batch shell of job $SLURM_JOB_ID"
    [ "@DELIVER@" = none ] && return 0
    : > "$MIRAGE_STOP_FILE" || mirage_report "cannot write $MIRAGE_STOP_FILE"
    [ "@DELIVER@" = file ] && return 0
    mirage_deliver "$(kill -l "@DELIVER@")" "@DELIVER@" "@LEAD@" "@EXECUTABLE@" &
    mirage_delivering=$!
    [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ] || return 0
    srun --overlap --exact --mem=0 --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
        bash -c "trap 'exit 0' USR1; $(declare -f mirage_deliver); [ \"\$SLURMD_NODENAME\" = '${SLURMD_NODENAME:-}' ] ||
            mirage_deliver $(kill -l "@DELIVER@") @DELIVER@ @LEAD@ '@EXECUTABLE@'" &
    mirage_elsewhere=$!
}

rm -f "$MIRAGE_STOP_FILE"
mirage_running=${SLURM_SUBMIT_DIR:-.}/.mirage-running
: > "$mirage_running-$SLURM_JOB_ID"
trap 'mirage_warn USR1' USR1
trap 'mirage_warn USR2' USR2
trap 'mirage_warn TERM' TERM
# Never two trainers: the previous link saves and leaves first. One that was killed has left its file; one that still
# runs after its grace has had no signal, because the agent is down.
SECONDS=0 mirage_query=$((@LEAD@ + 60)) mirage_ran=@LEAD@ mirage_signalled=
while [ "@WAITS@" = 1 ] && [ -e "$mirage_running-${MIRAGE_PREVIOUS_JOB:-none}" ] && [ -z "$mirage_stop" ]; do
    if [ "$SECONDS" -ge "$mirage_query" ]; then
        mirage_query=$((SECONDS + 60))
        case $(@STATE@) in
            *"nvalid job"*) rm -f "$mirage_running-$MIRAGE_PREVIOUS_JOB" ;;
            *RUNNING*)
                if [ -z "$mirage_signalled" ]; then
                    mirage_report "job $MIRAGE_PREVIOUS_JOB still runs: it gets USR1"
                    scancel --batch --signal=USR1 --state=RUNNING "$MIRAGE_PREVIOUS_JOB"
                fi
                mirage_signalled=yes mirage_ran=$SECONDS ;;
            *SUSPENDED*) mirage_ran=$SECONDS ;;
            *COMPLETING* | *failed)
                [ $((SECONDS - mirage_ran)) -lt @LONGEST@ ] || rm -f "$mirage_running-$MIRAGE_PREVIOUS_JOB" ;;
            *) rm -f "$mirage_running-$MIRAGE_PREVIOUS_JOB" ;;
        esac
    fi
    sleep 1
done
if [ -n "$mirage_stop" ]; then # the warning has come first
    mirage_status=0
else
    (trap '' USR1 USR2; trap - TERM; exec "$0" "$@") <&0 &
    mirage_child=$!
    while kill -0 "$mirage_child" 2> /dev/null; do wait "$mirage_child"; done
    wait "$mirage_child" # a trap ends the wait before: its status is not that of the child
    mirage_status=$?
fi
# Nobody is left to signal. srun passes USR1 on; if it were killed, it would report errors.
[ -z "$mirage_delivering" ] || kill "$mirage_delivering" 2> /dev/null
[ -z "$mirage_elsewhere" ] || kill -s USR1 "$mirage_elsewhere" 2> /dev/null
SECONDS=0
while [ -n "$mirage_elsewhere" ] && kill -0 "$mirage_elsewhere" 2> /dev/null; do
    [ "$SECONDS" -lt 5 ] || kill -s KILL "$mirage_elsewhere" 2> /dev/null
    sleep 0.2
done
rm -f "$MIRAGE_STOP_FILE" "$mirage_running-$SLURM_JOB_ID"
# Left on the warning, and not at its end: another status than 0, which would end a chain.
[ -n "$mirage_stop" ] && [ "$mirage_status" = 0 ] && mirage_status=75
exit "$mirage_status"
