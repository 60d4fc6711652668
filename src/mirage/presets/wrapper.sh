# Mirage: runs the batch script as a child of this shell, and passes the warning on.
#
# Slurm and the agent signal this shell alone. Every process of the job that handles the signal gets it, on every node,
# as soon as it handles it; launchers get nothing. The child ignores USR1 and USR2 until a handler is set, so that a
# signal in an import does not end it.
set +e
export MIRAGE_WRAPPED="$SLURM_JOB_ID-$(cat /proc/sys/kernel/random/uuid)" # numbers of jobs repeat across clusters
export MIRAGE_STOP_FILE="${MIRAGE_STOP_FILE:-${SLURM_SUBMIT_DIR:-.}/.mirage-stop-$SLURM_JOB_ID}"
[ -n "${SLURM_JOB_END_TIME:-}" ] || [ "@LIMIT@" = 0 ] || export MIRAGE_JOB_END_TIME=$(($(date +%s) + @LIMIT@))
@EXPORTS@
mirage_stop= mirage_delivering=
mirage_report() { echo "mirage: $(date +%T) $*" >&2; }

mirage_deliver() { # NUMBER NAME SECONDS EXECUTABLE: signal the processes of this job on this node that handle it
    local number=$1 name=$2 end=$((SECONDS + $3)) executable=$4 done=" " pid key value
    while [ "$SECONDS" -lt "$end" ]; do
        local -A parent=() catches=()
        for dir in $(grep -lzFx "MIRAGE_WRAPPED=$MIRAGE_WRAPPED" /proc/[0-9]*/environ 2> /dev/null); do
            dir=${dir%/environ}
            pid=${dir#/proc/}
            if [ -n "${SLURMD_NODENAME:-}" ] && grep -qz "^SLURMD_NODENAME=" "$dir/environ" 2> /dev/null; then
                grep -qzFx "SLURMD_NODENAME=$SLURMD_NODENAME" "$dir/environ" 2> /dev/null || continue
            fi
            while read -r key value _; do
                case $key in PPid:) parent[$pid]=$value ;; SigCgt:) catches[$pid]=$((0x$value >> (number - 1) & 1)) ;; esac
            done 2> /dev/null < "$dir/status"
            case $(readlink "$dir/exe") in
                */srun | */slurmstepd | */bash | */dash) catches[$pid]=0 ;;
                $executable) ;;
                *) catches[$pid]=0 ;;
            esac
            [ "${catches[$pid]:-0}" = 0 ] || case " $(tr '\0' ' ' < "$dir/cmdline" 2> /dev/null)" in
                */torchrun\ * | *\ torchrun\ * | *torch.distributed.run\ * | *torch.distributed.launch\ * | \
                    */accelerate\ launch* | *accelerate.commands.launch* | */deepspeed\ * | *deepspeed.launcher* | \
                    *multiprocessing.resource_tracker* | *@OBSERVER@*)
                    catches[$pid]=0 ;;
            esac
        done
        for pid in "${!catches[@]}"; do
            [ "${catches[$pid]}" = 1 ] || continue
            case $done in *" $pid "*) continue ;; esac
            value=${parent[$pid]:-0} # a worker that a trainer has forked inherits its handlers: it gets nothing
            while [ "$value" -gt 1 ] && [ "${catches[$value]:-0}" != 1 ]; do value=${parent[$value]:-0}; done
            [ "$value" -gt 1 ] && continue
            kill -0 "$pid" 2> /dev/null || continue
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
        bash -c "$(declare -f mirage_deliver); [ \"\$SLURMD_NODENAME\" = '${SLURMD_NODENAME:-}' ] ||
            mirage_deliver $(kill -l "@DELIVER@") @DELIVER@ @LEAD@ '@EXECUTABLE@'" &
    mirage_delivering="$mirage_delivering $!"
}

rm -f "$MIRAGE_STOP_FILE"
mirage_running=${SLURM_SUBMIT_DIR:-.}/.mirage-running
: > "$mirage_running-$SLURM_JOB_ID"
trap 'mirage_warn USR1' USR1
trap 'mirage_warn USR2' USR2
trap 'mirage_warn TERM' TERM
# Never two trainers: the previous link saves and leaves first. One that was killed has left its file.
SECONDS=0
while [ "@WAITS@" = 1 ] && [ -e "$mirage_running-${MIRAGE_PREVIOUS_JOB:-none}" ] && [ -z "$mirage_stop" ]; do
    [ "$SECONDS" -ge $((@LEAD@ + 60)) ] && rm -f "$mirage_running-$MIRAGE_PREVIOUS_JOB"
    sleep 1
done
(trap '' USR1 USR2; trap - TERM; exec "$0" "$@") <&0 &
mirage_child=$!
while :; do
    wait "$mirage_child"
    mirage_status=$?
    kill -0 "$mirage_child" 2> /dev/null || break
done
[ -z "$mirage_delivering" ] || kill $mirage_delivering 2> /dev/null # nobody is left to signal
rm -f "$MIRAGE_STOP_FILE" "$mirage_running-$SLURM_JOB_ID"
# Left on the warning, and not at its end: another status than 0, which would end a chain.
[ -n "$mirage_stop" ] && [ "$mirage_status" = 0 ] && mirage_status=75
exit "$mirage_status"
