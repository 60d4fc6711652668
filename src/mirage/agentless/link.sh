#!/bin/sh
# Template of a link's batch script: `link_script.py` puts the settings, the request and the tree in place of the lines
# with @, and takes out comments and indentation. Arguments: number of the link, job before it, arguments of the script.
# mirage: a link of a chain without an agent
@SETTINGS@
link=$1 before=$2
shift 2
me=$SLURM_JOB_ID f=$d/link.$link after=$((link+1))
tag=agentless:$chain:$key:$after
begin=$(date +%s) leaving=0 next= freed=0 start= plan= quick=0 end= child= slurm_wait= reaper= c= total= age_retained=0

# The commands of this link read neither the variables of its job nor the user's filters.
without() {
  unset $(env | sed -nE "/^SLURM_CONF=/d;s/^(($1)_[A-Za-z0-9_]*)=.*/\1/p") _
}
@REQUEST@
@TREE@
say() {
  echo "$(date +%FT%T) link $link job $me: $*" >>"$d/log"
}
save() {
  echo "job=$me next=$next freed=$freed quick=$quick end=$end" >"$f.new" && mv -f "$f.new" "$f"
}
over() {
  [ -e "$d/stop" ] || [ -e "$d/done" ] || [ $((until>0&&$(date +%s)>=until)) = 1 ]
}
last() {
  over || [ $((links>0&&link>=links)) = 1 ]
}
# Reads the queue: the end of this job, and the next link by its comment, or by its number where the site has replaced
# the comment; fails if slurmctld does not answer. Hidden partitions count, and the user's filters do not. Once the next
# link competes, the jobs of all users are read: those behind it do not delay it.
poll() {
  who=
  [ $freed = 1 ] || who=--me
  q=$(
    without SQUEUE
    SLURM_TIME_FORMAT=%s squeue $who -ah -o '%i %T %e %E %D %l %Q %P %S %k' 2>&1
  ) || {
    say "squeue: $q"
    return 1
  }
  end=$(echo "$q" | awk -v j=$me '$1==j{print $3+0}')
  set -- $(echo "$q" | awk -v t="$tag" -v n=$next '$NF==t||$1==n{print $1,$4,$2,$9,$7}')
  next=$1 waits=$2 state=$3 start=$4
  [ $freed = 1 ] || low=$5
  # two answers to one request: one is enough
  [ ! "$6" ] || scancel -t PENDING $6
}
# Makes sure that the next link exists; it waits for the end of this one until it is released. Its nice value is one more
# than that of the request of --test-only, which then does not count it among the jobs ahead.
ensure() {
  [ -e "$d/link.$after" ] && next= && return 0
  poll || return 1
  last && {
    state=
    [ "$next" ] && scancel -t PENDING $next && say "withdrew job $next" && next= && save
    return 0
  }
  [ "$next" ] || {
    out=$(request --parsable -d afterany:$me --nice=$nice --comment="$comment$tag" 2>&1) || {
      say "sbatch: $out"
      return 1
    }
    next=$(echo "$out" | sed -nE 's/^([0-9]+).*/\1/p') waits=afterany state=PENDING freed=0
    say "submitted job $next"
  }
  save
}
# Slurm before 24.11 may crash at --test-only with preemption, before 25.11 with several partitions.
may_test() {
  [ "$c" ] || c=$(scontrol show config | awk '/^SLURM_VERSION/{sub(/\./,"",$3);n=int($3)} /^PreemptMode/{p=$3} /StorageEnforce/{k=$3!~/limits|safe|all/} END{if(n)print n,p,k}')
  set -- $c
  age_retained=${3:-0}
  [ "${1:-0}" -ge 2411 ] || [ "$2" = OFF ] || return 1
  case $parts in *,*) [ "$1" -ge 2511 ] ;; esac
}
# Seconds in the estimate of --test-only that are due to the next link itself, and to the jobs behind it. A job counts in
# the estimate if its priority is above that of the next link before its release.
behind() {
  p=$SLURM_JOB_PARTITION
  [ "$total" ] || total=$(sinfo -hp "$p" -o %D | awk '{n+=$1} END{print n}')
  echo "$q" | awk -v n=$next -v p=$p -v t=$total -v z=${low:-0} '$2=="PENDING"&&$8==p{k=split($6,a,/[-:]/);s=0;m=1
for(i=k;i;i--){s+=a[i]*m;m*=i==k-2?24:60}
w[$1]=$5*s;r[$1]=$7}
END{for(i in w)if(r[i]>z&&(i==n||r[i]<r[n]))b+=w[i];printf "%d",t?b/t:0}'
}
measure() {
  now=$(date +%s)
  [ "$end" -gt "$now" ] 2>/dev/null || return 1
  remaining=$((end-now)) elapsed=$((now-begin))
  @MEASURES@
}
# The next link competes while the tree says submit, but not in the first quarter of a link that took over from one with
# more than a quarter of a limit left: a wrong estimate would burn link after link. Otherwise it waits for the end of this
# one, again where it keeps its age then: Slurm removes the age where it enforces limits.
pass() {
  ensure || return 1
  [ "$next" ] && [ "$state" = PENDING ] || return 0
  measure || return 0
  decide
  case $answer$waits in
  submit*afterany*)
    [ $((left*4>remaining+elapsed&&elapsed*3<remaining)) = 0 ] || return 0
    to= word=releases
    ;;
  wait*afterany* | submit*) return ;;
  *)
    [ $age_retained = 1 ] || return 0
    to=afterany:$me word=holds
    ;;
  esac
  if out=$(scontrol update JobId=$next Dependency="$to" 2>&1); then
    say "$word job $next: remaining $remaining s, slurm_wait ${slurm_wait:-?} s"
    freed=1
    save
  else
    say "scontrol: $out"
  fi
}
watch() {
  trap '' USR2
  while :; do
    [ $quick = 0 ] || [ $(($(date +%s)-begin)) -lt $least ] || { quick=0; save; }
    if pass; then sleep $every; else sleep $((every<20?every:20)); fi
  done
}
# Once this link is ready, the one before saves and leaves.
take() {
  sleep $warmup
  until [ $by_job = 0 ] || [ -e "$MIRAGE_READY" ]; do sleep 2; done
  until out=$(scancel -b -s USR2 -t RUNNING $before 2>&1); do
    case $out in *nvalid*|*lready*) return ;; esac
    sleep 20
  done
}
leave() {
  [ $leaving = 0 ] && [ "$child" ] || return
  leaving=1
  say "hands over"
  [ -z "$signal" ] || kill -"$signal" "-$child" 2>/dev/null || kill -s "$signal" "$child"
  { sleep $grace; kill -TERM "-$child"; sleep 30; kill -KILL "-$child"; } 2>/dev/null &
  reaper=$!
}

# One job alone is link N: the first to make the file. A requeued job finds its own.
p=$d/link.$((link-1))
[ ! -e "$p" ] || . "$p"
quick=$((quick+1)) next= freed=0 left=$((end-begin))
echo "job=$me next= freed=0 quick=$quick" >"$f.$me" || exit 1
ln "$f.$me" "$f" 2>/dev/null
rm -f "$f.$me"
. "$f"
[ $job = $me ] && [ ! -e "$d/link.$after" ] || {
  say "leaves: job $job or a later one runs"
  exit
}
over && say "the chain has ended" && exit
if [ $((least>0&&quick>3)) = 1 ]; then
  say "stop: three links in a row ended within $least s"
  >"$d/stop"
  exit 1
fi
trap leave USR2
trap 'leaving=1' TERM
export MIRAGE_CHAIN=$chain MIRAGE_LINK=$link MIRAGE_PREVIOUS_JOB=$before MIRAGE_READY="$d/ready.$link" MIRAGE_GRACE=$grace
# the insurance comes first: from now on the chain survives the sudden end of this job
ensure
$(command -v setsid) "$d/$script" "$@" &
child=$!
watch &
w=$!
[ $before = 0 ] || take &
t=$!
while wait $child; rc=$?; [ $rc -gt 128 ] && kill -0 $child 2>/dev/null; do :; done
# where a trap has ended that wait, its status is not that of the child
wait $child
c=$?
[ $c = 127 ] || rc=$c
kill $w $t $reaper 2>/dev/null
[ $leaving$rc$until_done != 001 ] || {
  say "the work is done"
  >"$d/done"
}
. "$f"
until ensure; do sleep 20; done
last && >"$d/done"
say "ends with status $rc"
exit $rc
