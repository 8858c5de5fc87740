package statefulset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers/internal/podstate"
)

// burstReplicas is the maximum number of pods that one reconcile creates.
//
//upstream:pkg/controller/statefulset.MaxBatchSize
const burstReplicas = 500

// observed is the state from which a plan is made.
type observed struct {
	set             *appsv1.StatefulSet
	pods            []*corev1.Pod // its members, in any order
	current, update revision
	// claim returns the claim of that name in the namespace of the StatefulSet, or nil.
	claim func(name string) *corev1.PersistentVolumeClaim
	now   time.Time
}

// revision is a template with the name of its ControllerRevision.
type revision struct {
	name     string
	template *corev1.PodTemplateSpec
}

// verb is the kind of an action.
type verb string

// The verbs. They are parts of the reasons and messages of events.
const (
	nothing verb = ""
	create  verb = "Create"
	update  verb = "Update"
	remove  verb = "Delete"
)

// action is a change of a pod and its claims.
type action struct {
	verb verb
	pod  *corev1.Pod
	// create are missing claims. They are created before the change of the pod.
	create []*corev1.PersistentVolumeClaim
	// deleting are the names of claims that are being deleted. The pod does not change until they are created again.
	deleting []string
	// pending is set for a pod in the phase Pending. If its claims cannot be created, there is no event.
	pending bool
	// update are claims with changed owner references. They are updated after the change of the pod.
	update []*corev1.PersistentVolumeClaim
	// conflicts are the names of claims that another controller owns. The retention policy does not apply to them. Each
	// conflict has an event.
	conflicts []string
}

// empty reports whether there is nothing to do.
func (a *action) empty() bool {
	return a.verb == nothing && len(a.create) == 0 && len(a.deleting) == 0 && len(a.update) == 0 && len(a.conflicts) == 0
}

// plan is the next changes of a StatefulSet. Events of pods and claims cause the changes after them.
type plan struct {
	// phases are executed in order, each only if the phase before had no error: the replicas, the claims of the pods
	// to scale down, these pods, and the rolling update. If the pod management policy is Parallel, the replicas come
	// after the pods to scale down, and the actions of a phase are concurrent.
	phases [][]action
	status appsv1.StatefulSetStatus
	// after is the time until another pod becomes available, or zero.
	after time.Duration
}

// nextPlan returns the plan for a state. It does not change the arguments.
//
// With the policy OrderedReady, a plan ends at the first pod that has to be created or awaited. With the policy Parallel,
// pods are scaled down first: a replica may need the quota or the node that they hold. That is Kubernetes 1.38's order; 1.37
// scales down last, and waits for ever.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.updateStatefulSet
func nextPlan(o *observed) plan {
	p := &planner{observed: o, ordered: o.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		first: startOrdinal(o.set), replicas: map[int]*corev1.Pod{}}
	p.status, p.after = statusOf(o)
	if o.set.DeletionTimestamp == nil {
		p.partition()
		steps := []func() bool{p.planReplicas, p.planScaleDown}
		if !p.ordered {
			slices.Reverse(steps)
		}
		if steps[0]() && steps[1]() && o.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			p.planUpdate()
		}
	}
	completeUpdate(o.set, &p.status)
	return p.plan
}

// planner computes a plan.
type planner struct {
	*observed
	plan
	ordered bool
	first   int // the first ordinal

	replicas  map[int]*corev1.Pod // by ordinal
	condemned []*corev1.Pod       // pods outside the range of ordinals, in descending order
	created   int                 // number of replicas that the plan creates
}

// partition divides the pods into replicas and condemned pods.
func (p *planner) partition() {
	for _, pod := range p.pods {
		if ordinal := p.ordinal(pod); inRange(p.set, ordinal) {
			p.replicas[ordinal] = pod
		} else {
			p.condemned = append(p.condemned, pod)
		}
	}
	slices.SortFunc(p.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(p.ordinal(b), p.ordinal(a)) })
}

// ordinal returns the ordinal of a member.
func (p *planner) ordinal(pod *corev1.Pod) int {
	ordinal, _ := ordinalOf(p.set, pod)
	return ordinal
}

// phase adds a phase, unless it is empty. With the policy Parallel, empty actions count in the batches.
func (p *planner) phase(actions []action) {
	if p.ordered {
		actions = slices.DeleteFunc(actions, func(a action) bool { return a.empty() })
	}
	if slices.ContainsFunc(actions, func(a action) bool { return !a.empty() }) {
		p.phases = append(p.phases, actions)
	}
}

// planReplicas creates missing replicas, replaces terminated replicas and corrects the others, in ascending order. It
// reports whether the plan may continue.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.updateStatefulSet
func (p *planner) planReplicas() (proceed bool) {
	var actions []action
	defer func() { p.phase(actions) }()
	for ordinal := p.first; ordinal < p.first+desired(p.set); ordinal++ {
		a, ready := p.replica(ordinal)
		actions = append(actions, a)
		if p.ordered && !ready {
			return false
		}
		if p.created == burstReplicas {
			return true
		}
	}
	return true
}

// replica returns the action for a replica, and whether the replica is healthy. With the policy Parallel, unhealthy
// replicas are corrected too.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.processReplica
func (p *planner) replica(ordinal int) (a action, ready bool) {
	pod := p.replicas[ordinal]
	switch {
	case pod == nil:
		p.created++
		return p.creation(ordinal), false
	case podstate.Finished(pod):
		// The pod is created again, even if it has succeeded: the phase of a pod that was stopped by force depends
		// only on the exit codes of its containers.
		if pod.DeletionTimestamp == nil {
			a = action{verb: remove, pod: pod}
		}
		return a, false
	case pod.Status.Phase == corev1.PodPending:
		a = p.claims(pod, ordinal, true)
		a.pending = true
		if p.ordered {
			return a, false
		}
	case p.ordered && !p.healthy(pod):
		return action{}, false
	}
	if a.pod == nil {
		a = p.correctedClaims(pod, ordinal, !storageMatches(p.set, pod, ordinal))
	}
	if conforming := conform(p.set, pod, ordinal); conforming != nil {
		a.verb, a.pod = update, conforming
	} else if len(a.update) > 0 && pod.Status.Phase != corev1.PodPending {
		a.verb = update // changes nothing, but has an event
	}
	return a, true
}

// creation returns the action that creates a replica. There is none while the garbage collector has to delete a claim of
// an earlier pod, which was scaled down.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.processReplica
//upstream:pkg/controller/statefulset.StatefulPodControl.PodClaimIsStale
//upstream:pkg/controller/statefulset.StatefulPodControl.CreateStatefulPod
func (p *planner) creation(ordinal int) action {
	pod := newPod(p.set, p.revisionFor(ordinal), ordinal)
	whenScaled, _ := retention(p.set)
	for _, t := range claimTemplates(p.set) {
		c := p.claim(claimName(p.set, t, ordinal))
		if c != nil && whenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && hasStalePodOwner(c, pod) {
			return action{}
		}
	}
	a := p.claims(pod, ordinal, true)
	a.verb = create
	return a
}

// revisionFor returns the revision of a new replica. Below the partition it is the current revision.
//
//upstream:pkg/controller/statefulset.newVersionedStatefulSetPod
func (p *planner) revisionFor(ordinal int) revision {
	s := p.set.Spec.UpdateStrategy
	if s.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return p.update
	}
	current := int(p.set.Status.CurrentReplicas)
	if s.RollingUpdate != nil {
		current = updatePartition(p.set)
	}
	if ordinal < p.first+current {
		return p.current
	}
	return p.update
}

// claims returns the changes of the claims of a pod: the owner references that the retention policy demands and, if
// missing is set, the missing claims and the names of the claims that are being deleted.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.ClaimsMatchRetentionPolicy
func (p *planner) claims(pod *corev1.Pod, ordinal int, missing bool) action {
	a := action{pod: pod}
	for _, t := range claimTemplates(p.set) {
		c := p.claim(claimName(p.set, t, ordinal))
		if c == nil {
			if missing {
				a.create = append(a.create, newClaim(p.set, t, ordinal))
			}
			continue
		}
		if missing && c.DeletionTimestamp != nil {
			a.deleting = append(a.deleting, c.Name)
		}
		refs, conflict := claimOwners(p.set, c, pod, ordinal)
		if conflict {
			a.conflicts = append(a.conflicts, c.Name)
		}
		if !sameOwners(refs, c.OwnerReferences) {
			c = c.DeepCopy()
			c.OwnerReferences = refs
			a.update = append(a.update, c)
		}
	}
	return a
}

// correctedClaims returns claims, with conflicts only if an owner reference has to change.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.UpdatePodClaimForRetentionPolicy
func (p *planner) correctedClaims(pod *corev1.Pod, ordinal int, missing bool) action {
	a := p.claims(pod, ordinal, missing)
	if len(a.update) == 0 {
		a.conflicts = nil
	}
	return a
}

// planScaleDown deletes the condemned pods in descending order. With the policy OrderedReady it deletes one pod at a
// time, and no healthy pod while a lower pod is unhealthy. It reports whether the plan may continue.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.processCondemned
func (p *planner) planScaleDown() (proceed bool) {
	var claims, pods []action
	var firstUnavailable *corev1.Pod
	for _, pod := range p.condemned {
		claims = append(claims, p.correctedClaims(pod, p.ordinal(pod), false))
		if p.unavailable(pod) {
			firstUnavailable = pod // the last one has the lowest ordinal
		}
	}
	p.phase(claims)
	for _, pod := range p.condemned {
		wait := pod.DeletionTimestamp != nil
		if p.ordered && !p.healthy(pod) && pod != firstUnavailable {
			wait = true
		}
		a := action{}
		if !wait {
			a = action{verb: remove, pod: pod}
		}
		pods = append(pods, a)
		if p.ordered {
			break
		}
	}
	p.phase(pods)
	return !p.ordered || len(p.condemned) == 0
}

// updatePartition returns the partition of a rolling update: the number of replicas, from the first one, that keep the
// current revision.
func updatePartition(set *appsv1.StatefulSet) int {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.Partition == nil {
		return 0
	}
	return int(*r.Partition)
}

// planUpdate deletes replicas of other revisions than the update revision, in descending order down
// to the partition: as many as maxUnavailable permits, less the replicas from the partition on that are unavailable. An
// unavailable replica below the partition keeps its revision, so no update would ever mend it. With the policy Parallel,
// planUpdate first deletes all replicas of other revisions that are unavailable, since their deletion makes no further
// one unavailable.
//
//upstream:pkg/controller/statefulset.updateStatefulSetAfterInvariantEstablished
func (p *planner) planUpdate() {
	budget := maxUnavailable(p.set) - p.unavailableReplicas()
	var actions []action
	if !p.ordered {
		for _, pod := range p.outdated() {
			if p.unavailable(pod) {
				actions = append(actions, action{verb: remove, pod: pod})
			}
		}
	}
	for _, pod := range p.outdated() {
		if (p.ordered || !p.unavailable(pod)) && budget > 0 {
			actions = append(actions, action{verb: remove, pod: pod})
			budget--
		}
	}
	p.phase(slices.DeleteFunc(actions, func(a action) bool { return podstate.Finished(a.pod) })) // planReplicas deletes them
}

// outdated returns the replicas that a rolling update replaces, from the highest ordinal down to the partition.
func (p *planner) outdated() []*corev1.Pod {
	var list []*corev1.Pod
	for ordinal := p.first + desired(p.set) - 1; ordinal >= p.first+updatePartition(p.set); ordinal-- {
		if pod := p.replicas[ordinal]; pod != nil && revisionOf(pod) != p.update.name && pod.DeletionTimestamp == nil {
			list = append(list, pod)
		}
	}
	return list
}

// unavailableReplicas returns the number of replicas from the partition on that are unavailable or do not exist.
func (p *planner) unavailableReplicas() int {
	n := updatable(p.set)
	for ordinal, pod := range p.replicas {
		if ordinal >= p.first+updatePartition(p.set) && !p.unavailable(pod) {
			n--
		}
	}
	return n
}

// updatable returns the number of replicas from the partition on.
func updatable(set *appsv1.StatefulSet) int { return max(0, desired(set)-updatePartition(set)) }

// maxUnavailable returns how many replicas a rolling update may make unavailable: a number or a percentage of
// the replicas from the partition on, rounded down, and at least one.
//
//upstream:pkg/controller/statefulset.getStatefulSetMaxUnavailable
func maxUnavailable(set *appsv1.StatefulSet) int {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, updatable(set), false)
	if err != nil {
		return 1 // validation accepts only numbers and percentages
	}
	return max(n, 1)
}
