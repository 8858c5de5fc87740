package deployment

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// plan is one step of a rollout. The next one follows when this one shows in the sets' status.
type plan struct {
	// create is the set for the present template, which does not exist yet.
	create *appsv1.ReplicaSet
	// update are sets as they ought to be.
	update []*appsv1.ReplicaSet
	// delete are sets that are older than the history goes back.
	delete []*appsv1.ReplicaSet
}

// planFor decides the next step. oldPods tells whether pods of old sets still exist, which matters to
// a deployment that is recreated. The arguments are left as they are.
func planFor(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, oldPods bool) (plan, error) {
	if d.DeletionTimestamp != nil {
		return plan{}, nil
	}
	s := &step{d: d, changed: map[*appsv1.ReplicaSet]*appsv1.ReplicaSet{}}
	s.current, s.old = split(d, sets)
	if s.current != nil {
		rs := s.change(s.current)
		annotate(d, rs, nextRevision(s.old))
		rs.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	}
	switch {
	case d.Spec.Paused || slices.ContainsFunc(active(sets), func(rs *appsv1.ReplicaSet) bool { return rescaled(d, rs) }):
		s.resize(sets)
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		s.recreate(oldPods)
	default:
		s.roll()
	}
	p := plan{}
	if s.create && !d.Spec.Paused {
		var err error
		if p.create, err = newSet(d, s.old); err != nil {
			return plan{}, err
		}
	}
	for _, rs := range sets {
		if c := s.changed[rs]; c != nil && !equality.Semantic.DeepEqual(rs, c) {
			p.update = append(p.update, c)
		}
	}
	if d.Spec.Paused || s.current != nil && complete(d, statusOf(d, sets)) {
		p.delete = beyondHistory(d, s.old)
	}
	return p, nil
}

// step is a plan in the making.
type step struct {
	d       *appsv1.Deployment
	current *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet
	create  bool
	changed map[*appsv1.ReplicaSet]*appsv1.ReplicaSet
}

// change returns the copy of a set that this step may change.
func (s *step) change(rs *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	if s.changed[rs] == nil {
		s.changed[rs] = rs.DeepCopy()
	}
	return s.changed[rs]
}

func (s *step) scale(rs *appsv1.ReplicaSet, to int32) {
	c := s.change(rs)
	c.Spec.Replicas = &to
	noteReplicas(s.d, c)
}

// recreate takes down all that is old before anything new comes up.
func (s *step) recreate(oldPods bool) {
	down := false
	for _, rs := range s.old {
		if replicas(rs) > 0 {
			s.scale(rs, 0)
			down = true
		}
	}
	switch {
	case down || oldPods:
	case s.current == nil:
		s.create = true
	default:
		s.scale(s.current, desired(s.d))
	}
}

// roll moves replicas from the old sets to the current one, within what may be missing and what may
// be too many. It scales up or down, never both.
func (s *step) roll() {
	if s.current == nil {
		s.create = true
		return
	}
	want, have := desired(s.d), replicas(s.current)
	total := have + sum(s.old, replicas)
	switch {
	case have > want:
		s.scale(s.current, want)
	case have < want && total < want+maxSurge(s.d):
		s.scale(s.current, have+min(want+maxSurge(s.d)-total, want-have))
	default:
		s.rollDown(total)
	}
}

// rollDown takes from the old sets what is not needed to keep enough available. total counts what the
// sets were last told to have, so that what was already taken down but still shows in their status is
// not taken twice.
func (s *step) rollDown(total int32) {
	least := desired(s.d) - maxUnavailable(s.d)
	budget := total - least - (replicas(s.current) - available(s.current))
	left := map[*appsv1.ReplicaSet]int32{}
	// What is not available is no loss.
	for _, rs := range s.old {
		left[rs] = replicas(rs)
		if n := min(replicas(rs)-available(rs), budget); n > 0 {
			left[rs] -= n
			budget -= n
		}
	}
	spare := available(s.current) + sum(s.old, available) - least
	for _, rs := range s.old {
		if n := min(left[rs], spare, budget); n > 0 {
			left[rs] -= n
			spare -= n
			budget -= n
		}
		if left[rs] != replicas(rs) {
			s.scale(rs, left[rs])
		}
	}
}

// resize follows a change of the number of replicas, or scales what is paused: in proportion to what
// the sets have, so that a rollout under way stays as far as it is.
func (s *step) resize(sets []*appsv1.ReplicaSet) {
	running := active(sets)
	if len(running) <= 1 {
		if only := cmp.Or(first(running), s.current, newest(s.old)); only != nil {
			s.scale(only, desired(s.d))
		}
		return
	}
	if s.current != nil && replicas(s.current) == desired(s.d) && available(s.current) == desired(s.d) {
		for _, rs := range s.old {
			s.scale(rs, 0)
		}
		return
	}
	allowed := int32(0)
	if desired(s.d) > 0 {
		allowed = desired(s.d) + maxSurge(s.d)
	}
	for rs, n := range proportion(running, allowed) {
		s.scale(rs, n)
	}
}

// proportion shares out to among the sets as they share what they have now. What does not divide
// goes to the largest; of equals, to the newest.
func proportion(sets []*appsv1.ReplicaSet, to int32) map[*appsv1.ReplicaSet]int32 {
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(replicas(b), replicas(a)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
	})
	total := int64(sum(sets, replicas))
	share := map[*appsv1.ReplicaSet]int32{}
	rest := to
	for _, rs := range sets {
		share[rs] = int32(int64(replicas(rs)) * int64(to) / total)
		rest -= share[rs]
	}
	share[sets[0]] += rest
	return share
}

// beyondHistory are the old sets that a deployment no longer keeps for going back.
func beyondHistory(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	if d.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	var idle []*appsv1.ReplicaSet
	for _, rs := range old {
		if replicas(rs) == 0 && rs.Status.Replicas == 0 && rs.Generation <= rs.Status.ObservedGeneration && rs.DeletionTimestamp == nil {
			idle = append(idle, rs)
		}
	}
	slices.SortStableFunc(idle, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	return idle[:max(0, len(idle)-int(*d.Spec.RevisionHistoryLimit))]
}

// firstReplicas is the size with which the current set begins.
func firstReplicas(d *appsv1.Deployment, old []*appsv1.ReplicaSet) int32 {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return desired(d)
	}
	return max(0, min(desired(d), desired(d)+maxSurge(d)-sum(old, replicas)))
}

func desired(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func maxSurge(d *appsv1.Deployment) int32 {
	if r := d.Spec.Strategy.RollingUpdate; r != nil && d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return resolve(r.MaxSurge, desired(d), true)
	}
	return 0
}

// maxUnavailable is at least one where nothing may be too many, or no rollout would ever begin.
func maxUnavailable(d *appsv1.Deployment) int32 {
	r := d.Spec.Strategy.RollingUpdate
	if r == nil || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || desired(d) == 0 {
		return 0
	}
	n := resolve(r.MaxUnavailable, desired(d), false)
	if n == 0 && maxSurge(d) == 0 {
		n = 1
	}
	return min(n, desired(d))
}

func resolve(v *intstr.IntOrString, of int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(v, intstr.FromInt32(0)), int(of), up)
	if err != nil {
		return 0 // the server lets nothing else through than numbers and percentages
	}
	return int32(n)
}

func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

func available(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }

func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var list []*appsv1.ReplicaSet
	for _, rs := range sets {
		if replicas(rs) > 0 {
			list = append(list, rs)
		}
	}
	return list
}

func sum(sets []*appsv1.ReplicaSet, of func(*appsv1.ReplicaSet) int32) (n int32) {
	for _, rs := range sets {
		n += of(rs)
	}
	return n
}

func first(sets []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	if len(sets) == 0 {
		return nil
	}
	return sets[0]
}

func newest(sets []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	if len(sets) == 0 {
		return nil
	}
	return sets[len(sets)-1]
}
