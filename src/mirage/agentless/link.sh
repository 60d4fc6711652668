#!/bin/sh
# Template of a link's batch script: `link_script.py` puts the settings, the request and the tree in place of the lines
# with @, and takes out comments and indentation. Arguments: number of the link, job before it, arguments of the script.
# mirage: a link of a chain without an agent
@SETTINGS@
link=$1 before=$2
shift 2
me=$SLURM_JOB_ID f=$d/link.$link following=$((link + 1))
tag=agentless:$chain:$key:$following
begin=$(date +%s) leaving=0 next= released=0 quick=0 end= child= slurm_wait= reaper=

@REQUEST@
@TREE@
say() {
  echo "$(date +%Y-%m-%dT%H:%M:%S) link $link job $me: $*" >>"$d/log"
}
save() {
  echo "job=$me next=$next released=$released quick=$quick" >"$f.new" && mv -f "$f.new" "$f"
}
over() {
  [ -e "$d/stop" ] || [ -e "$d/done" ] || { [ "$until" -gt 0 ] && [ "$(date +%s)" -ge "$until" ]; }
}
last() {
  over || { [ "$links" -gt 0 ] && [ "$link" -ge "$links" ]; }
}
# Reads the queue: the end of this job, and the next link by its comment, or by its number where the site has replaced
# the comment; fails if slurmctld does not answer. Hidden partitions count, and the user's filters do not.
poll() {
  q=$(
    unset $(env | sed -n 's/^\(SQUEUE_[A-Z0-9_]*\)=.*/\1/p') _
    SLURM_TIME_FORMAT=%s squeue --me -ah -o '%i %T %e %E %k' 2>&1
  ) || {
    say "squeue: $q"
    return 1
  }
  end=$(echo "$q" | awk -v j="$me" '$1==j {print $3}')
  set -- $(echo "$q" | awk -v t="$tag" -v n="$next" '$NF==t || $1==n {print $1,$4}')
  next=$1 waits=$2
  # two answers to one request: one is enough
  [ -z "$3" ] || scancel --state=PENDING "$3"
}
# Makes sure that the next link exists; it waits for the end of this one until it is released. Its nice value is one more
# than that of the request of --test-only, which then does not count it among the jobs ahead.
ensure() {
  [ -e "$d/link.$following" ] && next= && return 0
  last && { withdraw; return 0; }
  poll || return 1
  [ -n "$next" ] || {
    out=$(request --parsable --dependency=afterany:"$me" --nice="$nice" --comment="$comment$tag" 2>&1) || {
      say "sbatch: $out"
      return 1
    }
    next=$(echo "$out" | sed -n 's/^\([0-9][0-9]*\).*/\1/p') waits=afterany released=0
    say "submitted job $next"
  }
  save
}
withdraw() {
  poll && [ -n "$next" ] && scancel --state=PENDING "$next" && say "withdrew job $next" && next= && save
}
# Slurm before 24.11 may crash at --test-only with preemption, before 25.11 with several partitions.
may_test() {
  c=$(scontrol show config | awk '$1=="SLURM_VERSION"{split($3,v,".");n=v[1]*100+v[2]} $1=="PreemptMode"{p=$3} END{print n+0,p}')
  [ "${c%% *}" -ge 2411 ] || [ "${c#* }" = OFF ] || return 1
  case $parts in *,*) [ "${c%% *}" -ge 2511 ] ;; esac
}
measure() {
  now=$(date +%s)
  [ "$end" -gt "$now" ] 2>/dev/null || return 1
  remaining=$((end - now)) elapsed=$((now - begin))
  @MEASURES@
}
pass() {
  ensure || return 1
  [ -n "$next" ] || return 0
  case $waits in *afterany*) ;; *) return 0 ;; esac
  if [ "$released" = 0 ]; then
    measure || return 0
    decide
    [ "$answer" = submit ] || return 0
    say "releases job $next: remaining $remaining s, slurm_wait ${slurm_wait:-?} s"
  fi
  out=$(scontrol update JobId="$next" Dependency= 2>&1) && released=1 && save || say "scontrol: $out"
}
watch() {
  trap '' USR2
  while :; do
    [ "$quick" = 0 ] || [ $(($(date +%s) - begin)) -lt "$least" ] || { quick=0; save; }
    if pass; then sleep "$every"; else sleep $((every < 20 ? every : 20)); fi
  done
}
# Once this link is ready, the one before saves and leaves.
take() {
  sleep "$warmup"
  until [ "$by_job" = 0 ] || [ -e "$MIRAGE_READY" ]; do sleep 2; done
  until out=$(scancel --batch --signal=USR2 --state=RUNNING "$before" 2>&1); do
    case $out in *nvalid*|*lready*) return ;; esac
    sleep 20
  done
}
leave() {
  [ $leaving = 0 ] && [ -n "$child" ] || return
  leaving=1
  say "hands over"
  [ -z "$signal" ] || kill -s "$signal" "-$child" 2>/dev/null || kill -s "$signal" "$child"
  { sleep "$grace"; kill -s TERM "-$child"; sleep 30; kill -s KILL "-$child"; } 2>/dev/null &
  reaper=$!
}

# One job alone is link N: the first to make the file. A requeued job finds its own.
[ ! -e "$d/link.$((link - 1))" ] || . "$d/link.$((link - 1))"
quick=$((quick + 1)) next= released=0
echo "job=$me next= released=0 quick=$quick" >"$f.$me" || exit 1
ln "$f.$me" "$f" 2>/dev/null
rm -f "$f.$me"
. "$f"
if [ "$job" != "$me" ] || [ -e "$d/link.$following" ]; then
  say "leaves: job $job has its place, or the next link has"
  exit 0
fi
over && say "the chain has ended" && exit 0
if [ "$least" -gt 0 ] && [ $quick -gt 3 ]; then
  say "stop: three links in a row ended within $least s"
  : >"$d/stop"
  exit 1
fi
trap leave USR2
trap 'leaving=1' TERM
export MIRAGE_CHAIN=$chain MIRAGE_LINK=$link MIRAGE_PREVIOUS_JOB=$before MIRAGE_READY="$d/ready.$link"
# the insurance comes first: from now on the chain survives the sudden end of this job
ensure
$(command -v setsid) "$d/$script" "$@" &
child=$!
watch &
watcher=$!
[ "$before" = 0 ] || take &
taker=$!
code=129
while [ $code -gt 128 ]; do
  wait $child
  code=$?
  kill -0 $child 2>/dev/null || break
done
kill $watcher $taker $reaper 2>/dev/null
if [ $leaving = 0 ] && [ $code = 0 ] && [ "$until_done" = 1 ]; then
  say "the work is done"
  : >"$d/done"
fi
. "$f"
until ensure; do sleep 20; done
say "ends with status $code"
exit $code
