package statefulset

import (
	"cmp"
	"fmt"
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
	// blocked, if not empty, says why the pod cannot be created. The action then does nothing.
	blocked string
	// create are missing claims. They are created before the change of the pod.
	create []*corev1.PersistentVolumeClaim
	// update are claims with changed owner references. They are updated after the change of the pod.
	update []*corev1.PersistentVolumeClaim
	// conflicts are the names of claims that another controller owns. The retention policy does not apply to them.
	conflicts []string
}

// empty reports whether there is nothing to do.
func (a *action) empty() bool {
	return a.verb == nothing && a.blocked == "" && len(a.create) == 0 && len(a.update) == 0
}

// plan is the next changes of a StatefulSet. Events of pods and claims cause the changes after them.
type plan struct {
	// phases are executed in order, each only if the phase before had no error: the replicas, the claims of the pods
	// to scale down, these pods, and the rolling update. The actions of a phase are concurrent if the pod management
	// policy is Parallel.
	phases [][]action
	status appsv1.StatefulSetStatus
	// after is the time until another pod becomes available, or zero.
	after time.Duration
}

// nextPlan returns the plan for a state. It does not change the arguments.
//
// With the policy OrderedReady, a plan ends at the first pod that has to be created or awaited.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.updateStatefulSet
func nextPlan(o *observed) plan {
	p := &planner{observed: o, ordered: o.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		first: startOrdinal(o.set), replicas: map[int]*corev1.Pod{}}
	p.status, p.after = statusOf(o)
	if o.set.DeletionTimestamp == nil {
		p.partition()
		if p.planReplicas() && p.planScaleDown() && o.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			p.planUpdate()
		}
	}
	completeRollingUpdate(o.set, &p.status)
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

// phase adds a phase.
func (p *planner) phase(actions []action) {
	actions = slices.DeleteFunc(actions, func(a action) bool { return a.empty() })
	if len(actions) > 0 {
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
		if p.ordered {
			return a, false
		}
	case p.ordered && !p.healthy(pod):
		return action{}, false
	}
	conforming := conform(p.set, pod, ordinal)
	if a.pod == nil {
		a = p.claims(pod, ordinal, conforming != nil)
	}
	if conforming != nil {
		a.verb, a.pod = update, conforming
	}
	return a, true
}

// creation returns the action that creates a replica.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.processReplica
//upstream:pkg/controller/statefulset.StatefulPodControl.CreateStatefulPod
func (p *planner) creation(ordinal int) action {
	pod := newPod(p.set, p.revisionFor(ordinal), ordinal)
	whenScaled, _ := retention(p.set)
	for _, t := range claimTemplates(p.set) {
		switch c := p.claim(claimName(p.set, t, ordinal)); {
		case c == nil:
		case c.DeletionTimestamp != nil:
			return action{pod: pod, blocked: fmt.Sprintf("pvc %s is being deleted", c.Name)}
		case whenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && hasStalePodOwner(c, pod):
			return action{pod: pod, blocked: fmt.Sprintf("pvc %s belongs to a pod that was scaled down", c.Name)}
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
// missing is set, the missing claims.
//
//upstream:pkg/controller/statefulset.StatefulPodControl.ClaimsMatchRetentionPolicy
func (p *planner) claims(pod *corev1.Pod, ordinal int, missing bool) action {
	a := action{pod: pod}
	for _, t := range claimTemplates(p.set) {
		c := p.claim(claimName(p.set, t, ordinal))
		if c == nil {
			if missing {
				a.create = append(a.create, newClaim(p.set, t, pod, ordinal))
			}
			continue
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

// planScaleDown deletes the condemned pods in descending order. With the policy OrderedReady it deletes one pod at a
// time, and no healthy pod while a lower pod is unhealthy. It reports whether the plan may continue.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.processCondemned
func (p *planner) planScaleDown() (proceed bool) {
	var claims, pods []action
	var firstUnhealthy *corev1.Pod
	for _, pod := range p.condemned {
		claims = append(claims, p.claims(pod, p.ordinal(pod), false))
		if !p.healthy(pod) {
			firstUnhealthy = pod // the last one has the lowest ordinal
		}
	}
	p.phase(claims)
	for _, pod := range p.condemned {
		wait := pod.DeletionTimestamp != nil
		if p.ordered && !p.healthy(pod) && pod != firstUnhealthy {
			wait = true
		}
		if !wait {
			pods = append(pods, action{verb: remove, pod: pod})
		}
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
// to the partition: as many as maxUnavailable permits, less the replicas that are unavailable. With the
// policy Parallel, it first deletes all replicas of other revisions that are unavailable, since their deletion
// makes no further one unavailable.
//
//upstream:pkg/controller/statefulset.updateStatefulSetAfterInvariantEstablished
func (p *planner) planUpdate() {
	budget := maxUnavailable(p.set) - (desired(p.set) - p.healthyReplicas())
	var actions []action
	if !p.ordered {
		for _, pod := range p.outdated() {
			if !p.healthy(pod) {
				actions = append(actions, action{verb: remove, pod: pod})
			}
		}
	}
	for _, pod := range p.outdated() {
		if (p.ordered || p.healthy(pod)) && budget > 0 {
			actions = append(actions, action{verb: remove, pod: pod})
			budget--
		}
	}
	for _, a := range actions {
		if revisionOf(a.pod) == p.current.name {
			p.status.CurrentReplicas--
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

// healthyReplicas returns the number of healthy replicas.
func (p *planner) healthyReplicas() (n int) {
	for _, pod := range p.replicas {
		if p.healthy(pod) {
			n++
		}
	}
	return n
}

// maxUnavailable returns how many replicas a rolling update may make unavailable: a number or a percentage of
// the replicas, rounded down, and at least one.
//
//upstream:pkg/controller/statefulset.getStatefulSetMaxUnavailable
func maxUnavailable(set *appsv1.StatefulSet) int {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, desired(set), false)
	if err != nil {
		return 1 // validation accepts only numbers and percentages
	}
	return max(n, 1)
}
