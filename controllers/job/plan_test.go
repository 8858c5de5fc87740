package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Unix(1_000_000, 0)

// aJob returns a Job with the defaults of the server.
func aJob(completions, parallelism int32, change ...func(*batchv1.Job)) *batchv1.Job {
	limit, started := int32(6), metav1.NewTime(now.Add(-time.Hour))
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", UID: "job"},
		Spec: batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, BackoffLimit: &limit,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}},
		Status: batchv1.JobStatus{StartTime: &started},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func isIndexed(j *batchv1.Job) {
	mode := batchv1.IndexedCompletion
	j.Spec.CompletionMode = &mode
}

func isSuspended(j *batchv1.Job) { yes := true; j.Spec.Suspend = &yes }

func isWorkQueue(j *batchv1.Job) { j.Spec.Completions = nil }

func isDeleted(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} }

func replaces(p batchv1.PodReplacementPolicy) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = &p }
}

func limited(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n } }

func limitedPerIndex(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		isIndexed(j)
		all := int32(1 << 30)
		j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = &n, &all
	}
}

func counted(succeeded, failed int32, completed string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed, j.Status.CompletedIndexes = succeeded, failed, completed
	}
}

func uncounted(succeeded, failed string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		u := &batchv1.UncountedTerminatedPods{}
		for _, uid := range strings.Fields(succeeded) {
			u.Succeeded = append(u.Succeeded, types.UID(uid))
		}
		for _, uid := range strings.Fields(failed) {
			u.Failed = append(u.Failed, types.UID(uid))
		}
		j.Status.UncountedTerminatedPods = u
	}
}

func within(d int64) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &d }
}

func is(kind batchv1.JobConditionType, reason string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, *newCondition(kind, corev1.ConditionTrue, reason, "", now))
	}
}

// pods parses a list of pods such as "a:running b:failed@20 c/3:succeeded d:running-": the UID, the
// index, the phase, for how many seconds the pod has ended, a - if it has no finalizer, and a ! if
// it is terminating.
func pods(list string) (all []*corev1.Pod) {
	for text := range strings.FieldsSeq(list) {
		name, state, _ := strings.Cut(text, ":")
		name, index, isIndexed := strings.Cut(name, "/")
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
		if isIndexed {
			index, failures, _ := strings.Cut(index, "x")
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: index, batchv1.JobIndexFailureCountAnnotation: failures}
		}
		p.Finalizers = []string{batchv1.JobTrackingFinalizer}
		for {
			if rest, ok := strings.CutSuffix(state, "-"); ok {
				p.Finalizers, state = nil, rest
			} else if rest, ok := strings.CutSuffix(state, "!"); ok {
				p.DeletionTimestamp, state = &metav1.Time{Time: now.Add(-time.Minute)}, rest
			} else {
				break
			}
		}
		state, ago, _ := strings.Cut(state, "@")
		seconds, _ := strconv.Atoi(ago)
		ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			FinishedAt: metav1.NewTime(now.Add(-time.Duration(seconds) * time.Second))}}}
		switch state {
		case "running":
			p.Status.Phase, p.Spec.NodeName = corev1.PodRunning, "n"
		case "pending":
			p.Status.Phase = corev1.PodPending
		case "succeeded":
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodSucceeded, []corev1.ContainerStatus{ended}
		default: // failed, with an exit code
			code, err := strconv.Atoi(strings.TrimPrefix(state, "failed"))
			if err != nil {
				code = 1
			}
			ended.State.Terminated.ExitCode = int32(code)
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodFailed, []corev1.ContainerStatus{ended}
		}
		all = append(all, p)
	}
	return all
}

// describe returns a plan as text.
func describe(p plan) string {
	var parts []string
	if p.finishedCondition != nil {
		parts = append(parts, p.finishedCondition.Reason)
	}
	for name, list := range map[string][]*corev1.Pod{"end": p.end, "remove": p.remove} {
		var names []string
		for _, pod := range list {
			names = append(names, pod.Name)
		}
		if slices.Sort(names); len(names) > 0 {
			parts = append(parts, name+" "+strings.Join(names, " "))
		}
	}
	if len(p.create) > 0 {
		parts = append(parts, "create "+strings.Trim(fmt.Sprint(p.create), "[]"))
	}
	if p.after > 0 {
		parts = append(parts, "after "+p.after.String())
	}
	return strings.Join(parts, ", ")
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  *batchv1.Job
		pods string
		want string
	}{
		{"no pods", aJob(5, 2), "", "create -1 -1"},
		{"fewer are left than parallelism", aJob(5, 3, counted(4, 0, "")), "", "create -1"},
		{"some are active", aJob(5, 3), "a:running b:pending", "create -1"},
		{"one has succeeded, is not counted", aJob(2, 2), "a:succeeded b:running", ""},
		{"one has succeeded, is in the status", aJob(2, 2, uncounted("a", "")), "a:succeeded- b:running", ""},
		{"parallelism was reduced", aJob(5, 1), "a:running b:pending", "remove b"},
		{"a terminating pod is replaced", aJob(1, 1), "a:running!", "create -1"},
		{"a terminating pod is replaced when it has terminated", aJob(1, 1, replaces(batchv1.Failed)), "a:running!", ""},
		{"first failure", aJob(1, 1), "a:failed@4", "after 6s"},
		{"first failure, counted before a restart", aJob(1, 1, counted(0, 1, "")), "a:failed@4-", "create -1"},
		{"after the backoff", aJob(1, 1), "a:failed@10", "create -1"},
		{"third failure", aJob(1, 1), "a:failed@100 b:failed@70 c:failed@30", "after 10s"},
		{"a success in between", aJob(3, 1), "a:failed@100 b:succeeded@50 c:failed@5", "after 5s"},
		{"backoff limit", aJob(3, 3, limited(1), counted(0, 1, "")), "a:failed@100- b:failed c:running", "BackoffLimitExceeded, end c"},
		{"backoff limit not exceeded", aJob(3, 3, limited(1)), "b:failed@30 c:running d:running", "create -1"},
		{"deadline", aJob(1, 1, within(3600)), "a:running", "DeadlineExceeded, end a"},
		{"before the deadline", aJob(1, 1, within(3610)), "a:running", "after 10s"},
		{"deadline and backoff", aJob(1, 1, within(3610)), "a:failed@4", "after 6s"},
		{"failed before", aJob(1, 1, is(batchv1.JobFailureTarget, "Why")), "a:running", "Why, end a"},
		{"succeeded before, limits do not matter", aJob(2, 1, is(batchv1.JobSuccessCriteriaMet, "Why"), limited(0)), "a:failed b:running", "Why, end b"},
		{"suspended", aJob(2, 2, isSuspended, within(1)), "a:running b:pending", "remove a b"},
		{"being deleted", aJob(2, 2, isDeleted), "a:failed", ""},
		{"work queue", aJob(0, 3, isWorkQueue), "a:running", "create -1 -1"},
		{"work queue, one has succeeded", aJob(0, 3, isWorkQueue), "a:succeeded b:running", ""},
		{"at most 500", aJob(10_000, 10_000, counted(9_000, 0, "")), "", "create" + strings.Repeat(" -1", 500)},

		{"indexes", aJob(5, 3, isIndexed, counted(1, 0, "1")), "a/0:running b/2:succeeded", "create 3 4"},
		{"the same index twice, and one beyond", aJob(3, 3, isIndexed), "a/0:running b/0:pending c/7:running d:running", "remove b c d"},
		{"an index is replaced when its pod has terminated", aJob(2, 2, isIndexed, replaces(batchv1.Failed)), "a/0:running!", "create 1"},
		{"completions were reduced", aJob(2, 2, isIndexed, counted(3, 0, "0,2,3")), "a/1:running", ""},
		{"backoff of an index", aJob(3, 3, limitedPerIndex(2)), "a/0:failed@4 b/1x1:failed@12", "create 2, after 6s"},
		{"an index fails", aJob(2, 2, limitedPerIndex(1)), "a/0x1:failed@99", "create 1"},
		{"all others have succeeded", aJob(2, 2, limitedPerIndex(0), counted(1, 0, "1")), "a/0:failed", "FailedIndexes"},
		{"too many failed indexes", aJob(9, 3, limitedPerIndex(0), func(j *batchv1.Job) { n := int32(1); j.Spec.MaxFailedIndexes = &n }),
			"a/0:failed b/1:failed c/2:running", "MaxFailedIndexesExceeded, end c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := observe(tt.job, pods(tt.pods), now)
			if got := describe(o.plan(backoff{}.with(o.newSucceeded, o.newFailed))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestTrack looks at the status and the untracked pods after one reconcile.
func TestTrack(t *testing.T) {
	complete := newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "Enough", "", now)
	failure := newCondition(batchv1.JobFailureTarget, corev1.ConditionTrue, "Why", "", now)
	for _, tt := range []struct {
		name              string
		job               *batchv1.Job
		finishedCondition *batchv1.JobCondition
		pods              string
		want              string // succeeded, failed, uncounted ones, completed indexes, untracked pods, conditions
	}{
		{"running", aJob(2, 2), nil, "a:running", "0 0 [] [] '' [] "},
		{"terminated", aJob(3, 3), nil, "a:succeeded b:failed c:running", "0 0 [a] [b] '' [a b] "},
		{"in the status, still tracked", aJob(3, 3, uncounted("a", "b")), nil, "a:succeeded b:failed", "0 0 [a] [b] '' [a b] "},
		{"untracked", aJob(3, 3, uncounted("a", "b")), nil, "a:succeeded- b:failed-", "1 1 [] [] '' [] "},
		{"gone", aJob(3, 3, counted(1, 1, ""), uncounted("a", "b")), nil, "", "2 2 [] [] '' [] "},
		{"counted", aJob(3, 3, counted(1, 1, "")), nil, "a:succeeded- b:failed-", "1 1 [] [] '' [] "},
		{"terminating", aJob(3, 3), nil, "a:running!", "0 0 [] [a] '' [a] "},
		{"terminating, not yet failed", aJob(3, 3, replaces(batchv1.Failed)), nil, "a:running!", "0 0 [] [] '' [] "},
		{"failed first, as it was terminating", aJob(3, 3, uncounted("", "a")), nil, "a:succeeded!", "0 0 [] [a] '' [a] "},
		{"succeeded first, and was evicted since", aJob(3, 3, uncounted("a", "")), nil, "a:failed!", "0 0 [a] [] '' [a] "},
		{"completes", aJob(1, 1), complete, "a:succeeded", "0 0 [a] [] '' [a] SuccessCriteriaMet"},
		{"complete", aJob(1, 1, uncounted("a", ""), is(batchv1.JobSuccessCriteriaMet, "Enough")), complete, "a:succeeded-",
			"1 0 [] [] '' [] SuccessCriteriaMet Complete"},
		{"complete, but a pod is terminating", aJob(1, 1, counted(1, 0, "")), complete, "b:running!-", "1 0 [] [] '' [] SuccessCriteriaMet"},
		{"a pod that was terminating before the success fails", aJob(1, 1, counted(1, 0, "")), complete, "b:running!", "1 0 [] [b] '' [b] SuccessCriteriaMet"},
		{"fails with its pods", aJob(2, 2), failure, "a:failed b:running!", "0 0 [] [a b] '' [a b] FailureTarget"},
		{"failed", aJob(2, 2, uncounted("", "a b"), is(batchv1.JobFailureTarget, "Why")), failure, "", "0 2 [] [] '' [] FailureTarget Failed"},
		{"no completions", aJob(0, 0), complete, "", "0 0 [] [] '' [] SuccessCriteriaMet Complete"},
		{"indexes need no UIDs", aJob(3, 3, isIndexed, counted(1, 0, "0")), nil, "a/0:succeeded- b/2:succeeded c/1:failed",
			"2 0 [] [c] '0,2' [c b] "},
		{"an index is counted once", aJob(3, 3, isIndexed, counted(1, 0, "0")), nil, "a/0:succeeded", "1 0 [] [] '0' [a] "},
		{"an index beyond is not counted", aJob(3, 3, isIndexed), nil, "a/3:succeeded b/4:failed", "0 0 [] [] '' [a b] "},
		{"retained until it is replaced", aJob(3, 3, limitedPerIndex(5)), nil, "a/0:failed", "0 0 [] [] '' [] "},
		{"replaced", aJob(3, 3, limitedPerIndex(5)), nil, "a/0:failed b/0x1:running", "0 0 [] [a] '' [a] "},
		{"being deleted", aJob(2, 2, isDeleted), nil, "a:running b:failed", "0 0 [] [b] '' [a b] "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := observe(tt.job, pods(tt.pods), now)
			s, untrack := o.track(tt.finishedCondition, o.pods)
			var names, conditions []string
			for _, p := range untrack {
				names = append(names, p.Name)
			}
			for _, c := range s.Conditions {
				conditions = append(conditions, string(c.Type))
			}
			u := s.UncountedTerminatedPods
			got := fmt.Sprintf("%d %d %v %v '%s' %v %s", s.Succeeded, s.Failed, u.Succeeded, u.Failed, s.CompletedIndexes, names, strings.Join(conditions, " "))
			if got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestTrackEndedPods: a pod that the Job deletes because it succeeds does not fail.
func TestTrackEndedPods(t *testing.T) {
	o := observe(aJob(1, 1, counted(1, 0, "")), pods("b:running"), now)
	s, untrack := o.track(newCondition(batchv1.JobSuccessCriteriaMet, "True", "Enough", "", now), pods("b:running!"))
	if failed := s.UncountedTerminatedPods.Failed; len(failed) > 0 || len(untrack) != 1 {
		t.Errorf("failed %v, untracked %v", failed, untrack)
	}
}

// TestTrackManyPods adds no more pods to the status than it can have.
func TestTrackManyPods(t *testing.T) {
	var list []string
	for i := range 2 * maxUncounted {
		list = append(list, fmt.Sprintf("p%d:succeeded", i))
	}
	o := observe(aJob(5000, 5000), pods(strings.Join(list, " ")), now)
	s, untrack := o.track(nil, o.pods)
	if n := len(s.UncountedTerminatedPods.Succeeded); n != maxUncounted || len(untrack) != maxUncounted {
		t.Errorf("%d are uncounted, %d untracked", n, len(untrack))
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
		160 * time.Second, 320 * time.Second, 10 * time.Minute, 10 * time.Minute} {
		if got := backoffAfter(failures, now, now); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
	failed := pods("a:failed@50 b:failed@40 c:failed@30")
	b := backoff{}.with(nil, failed[:2])
	if again := b.with(nil, failed[:2]); again.remaining(now) != 0 || len(again.failures) != 2 {
		t.Errorf("the same pods again: %+v", again)
	}
	if b = b.with(nil, failed[2:]); b.remaining(now) != 10*time.Second {
		t.Errorf("with pods that were deleted: %s", b.remaining(now))
	}
	if b = b.with(pods("d:succeeded@35"), nil); len(b.failures) != 1 {
		t.Errorf("after a success: %+v", b)
	}
}

func TestFailurePolicy(t *testing.T) {
	in, notIn, name := batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn, "main"
	codes := func(op batchv1.PodFailurePolicyOnExitCodesOperator, container *string, values ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: "Do", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: op, ContainerName: container, Values: values}}
	}
	disrupted := batchv1.PodFailurePolicyRule{Action: "Do", OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}
	pod := pods("a:failed42")[0]
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	for i, tt := range []struct {
		rule    batchv1.PodFailurePolicyRule
		matches bool
	}{
		{codes(in, nil, 1, 42), true}, {codes(in, nil, 1), false}, {codes(notIn, nil, 1), true}, {codes(notIn, nil, 42), false},
		{codes(in, &name, 42), false}, {disrupted, true},
		{batchv1.PodFailurePolicyRule{Action: "Do", OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}}}, false},
	} {
		a := failureActionOf(&batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{tt.rule}}, pod)
		if (a.action == "Do") != tt.matches {
			t.Errorf("rule %d: %+v", i, a)
		}
	}
}

func TestSuccessPolicy(t *testing.T) {
	rule := func(indexes string, count int32) batchv1.SuccessPolicyRule {
		r := batchv1.SuccessPolicyRule{}
		if indexes != "" {
			r.SucceededIndexes = &indexes
		}
		if count > 0 {
			r.SucceededCount = &count
		}
		return r
	}
	for _, tt := range []struct {
		succeeded string
		rules     []batchv1.SuccessPolicyRule
		index     int
		ok        bool
	}{
		{"", []batchv1.SuccessPolicyRule{rule("0", 0)}, 0, false},
		{"0,2", []batchv1.SuccessPolicyRule{rule("0,2", 0)}, 0, true},
		{"0,2", []batchv1.SuccessPolicyRule{rule("0-2", 0)}, 0, false},
		{"0,2", []batchv1.SuccessPolicyRule{rule("0-2", 2)}, 0, true},
		{"0,2", []batchv1.SuccessPolicyRule{rule("1-3", 2), rule("", 2)}, 1, true},
		{"0,2", []batchv1.SuccessPolicyRule{rule("", 3)}, 0, false},
	} {
		i, ok := successRule(&batchv1.SuccessPolicy{Rules: tt.rules}, 5, parseIndexes(tt.succeeded, 5))
		if i != tt.index || ok != tt.ok {
			t.Errorf("%+v: %d, %v", tt, i, ok)
		}
	}
}
