package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// step is the next change of the ReplicaSets of a Deployment. The one after it follows from their
// status.
type step struct {
	// create is the ReplicaSet for the current template, which does not exist yet, or nil.
	create *appsv1.ReplicaSet
	// update are the ReplicaSets to be updated.
	update []*appsv1.ReplicaSet
	// delete are the ReplicaSets beyond the revision history limit.
	delete []*appsv1.ReplicaSet
	// annotated is whether the annotations or the minReadySeconds of the new ReplicaSet change.
	annotated bool
	// alone is whether the event of an update causes the rest, and the status stays as it is.
	alone bool
	// rollout is whether the step belongs to a rollout, and the status says how that progresses. A Deployment that is
	// being deleted, is paused or is being scaled has no rollout.
	rollout bool
}

// nextStep returns the next step. oldPods is whether pods of old ReplicaSets are left, for the
// strategy Recreate. It does not change the arguments.
//
//upstream:pkg/controller/deployment.DeploymentController.syncDeployment
//upstream:pkg/controller/deployment.DeploymentController.sync
func nextStep(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, oldPods bool) step {
	s := &rollout{d: d, changed: map[*appsv1.ReplicaSet]*appsv1.ReplicaSet{}}
	s.newRS, s.oldRSs = findNewAndOld(d, sets)
	running := active(sets)
	scaled := slices.ContainsFunc(running, func(rs *appsv1.ReplicaSet) bool { return isScalingEvent(d, rs) })
	p := step{annotated: s.annotate()}
	p.alone = p.annotated && d.DeletionTimestamp == nil && !d.Spec.Paused
	switch {
	case d.DeletionTimestamp != nil || p.alone:
	// With the strategy Recreate, kube-controller-manager would never get past several active ReplicaSets.
	case d.Spec.Paused || scaled && (len(running) == 1 || !recreates(d)):
		s.scaleProportionally(running)
	case recreates(d):
		p.rollout = true
		s.recreate(oldPods)
	default:
		p.rollout = true
		s.rollingUpdate()
	}
	if s.create {
		p.create = newReplicaSet(d, s.oldRSs)
	}
	for _, rs := range sets {
		if c := s.changed[rs]; c != nil && !equality.Semantic.DeepEqual(rs, c) {
			p.update = append(p.update, c)
		}
	}
	done := p.rollout && !oldPods && len(p.update) == 0 && complete(d, d.Status)
	if done || d.Spec.Paused && d.DeletionTimestamp == nil {
		p.delete = beyondHistoryLimit(d, s.oldRSs)
	}
	return p
}

// rollout computes a step.
type rollout struct {
	d      *appsv1.Deployment
	newRS  *appsv1.ReplicaSet
	oldRSs []*appsv1.ReplicaSet
	create bool
	// annotated is the new ReplicaSet with its annotations. They are written with its replicas if they are no reason for
	// an update.
	annotated *appsv1.ReplicaSet
	changed   map[*appsv1.ReplicaSet]*appsv1.ReplicaSet
}

// mutable returns the copy of a ReplicaSet that the step may change.
func (s *rollout) mutable(rs *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	switch {
	case s.changed[rs] != nil:
	case rs == s.newRS && s.annotated != nil:
		s.changed[rs] = s.annotated
	default:
		s.changed[rs] = rs.DeepCopy()
	}
	return s.changed[rs]
}

// annotate sets the annotations and the minReadySeconds of the new ReplicaSet, and reports whether they change.
//
//upstream:pkg/controller/deployment.DeploymentController.getNewReplicaSet
func (s *rollout) annotate() bool {
	if s.newRS == nil {
		return false
	}
	rs := s.newRS.DeepCopy()
	s.annotated = rs
	if !setNewReplicaSetAnnotations(s.d, rs, nextRevision(s.oldRSs)) && rs.Spec.MinReadySeconds == s.d.Spec.MinReadySeconds {
		return false
	}
	rs.Spec.MinReadySeconds = s.d.Spec.MinReadySeconds
	s.changed[s.newRS] = rs
	return true
}

// scale sets the replicas of a ReplicaSet, and its annotations if the replicas change or always is set.
//
//upstream:pkg/controller/deployment.DeploymentController.scaleReplicaSet
func (s *rollout) scale(rs *appsv1.ReplicaSet, to int32, always bool) {
	if replicas(rs) == to && !always {
		return
	}
	c := s.mutable(rs)
	c.Spec.Replicas = &to
	setReplicasAnnotations(s.d, c)
}

// recreate scales the old ReplicaSets to zero and, when they have no pods left, creates or scales
// up the new one.
//
//upstream:pkg/controller/deployment.DeploymentController.rolloutRecreate
func (s *rollout) recreate(oldPods bool) {
	scaledDown := false
	for _, rs := range s.oldRSs {
		if replicas(rs) > 0 {
			s.scale(rs, 0, false)
			scaledDown = true
		}
	}
	switch {
	case scaledDown || oldPods:
	case s.newRS == nil:
		s.create = true
	default:
		s.scale(s.newRS, desired(s.d), false)
	}
}

// rollingUpdate scales the new ReplicaSet up or the old ones down, within maxSurge and
// maxUnavailable.
//
//upstream:pkg/controller/deployment.DeploymentController.rolloutRolling
//upstream:pkg/controller/deployment.DeploymentController.reconcileNewReplicaSet
func (s *rollout) rollingUpdate() {
	if s.newRS == nil {
		s.create = true
		return
	}
	want, have := desired(s.d), replicas(s.newRS)
	total := have + sum(s.oldRSs, replicas)
	switch {
	case have > want:
		s.scale(s.newRS, want, false)
	case have < want && total < want+maxSurge(s.d):
		s.scale(s.newRS, have+min(want+maxSurge(s.d)-total, want-have), false)
	default:
		s.rollDown(total)
	}
}

// rollDown scales the old ReplicaSets down as far as enough pods stay available. total is the sum
// of the replicas in the specs, because the status still has replicas that were scaled down
// already.
//
//upstream:pkg/controller/deployment.DeploymentController.reconcileOldReplicaSets
//upstream:pkg/controller/deployment.DeploymentController.cleanupUnhealthyReplicas
//upstream:pkg/controller/deployment.DeploymentController.scaleDownOldReplicaSetsForRollingUpdate
func (s *rollout) rollDown(total int32) {
	minAvailable := desired(s.d) - maxUnavailable(s.d)
	budget := total - minAvailable - (replicas(s.newRS) - available(s.newRS))
	if budget <= 0 {
		return
	}
	old := active(s.oldRSs)
	left := map[*appsv1.ReplicaSet]int32{}
	defer func() {
		for rs, n := range left {
			s.scale(rs, n, false)
		}
	}()
	// Pods that are not available are deleted first.
	for _, rs := range old {
		left[rs] = replicas(rs)
		if budget == 0 {
			continue
		}
		n := min(replicas(rs)-available(rs), budget)
		if n < 0 {
			return // an earlier step is not done
		}
		left[rs] -= n
		budget -= n
	}
	spare := available(s.newRS) + sum(old, available) - minAvailable
	for _, rs := range old {
		n := max(0, min(left[rs], spare))
		left[rs] -= n
		spare -= n
	}
}

// scaleProportionally follows a change of the Deployment's replicas, or scales a paused Deployment, so that
// the progress of a rollout stays the same. running are the active ReplicaSets. It is the method scale of
// kube-controller-manager's Deployment controller, except that a single ReplicaSet of the right size gets the annotations too.
// Without them, the Deployment would count as being scaled for ever, and the rollout would not go on
// (https://github.com/kubernetes/kubernetes/issues/102551).
//
//upstream:pkg/controller/deployment.DeploymentController.scale
func (s *rollout) scaleProportionally(running []*appsv1.ReplicaSet) {
	if len(running) <= 1 {
		if only := cmp.Or(first(running), s.newRS, newest(s.oldRSs)); only != nil {
			s.scale(only, desired(s.d), isScalingEvent(s.d, only))
		}
		return
	}
	if s.newRS != nil && saturated(s.d, s.newRS) {
		for _, rs := range active(s.oldRSs) {
			s.scale(rs, 0, false)
		}
		return
	}
	if recreates(s.d) {
		return
	}
	for rs, n := range proportions(s.d, running) {
		s.scale(rs, n, true)
	}
}

// saturated reports whether a ReplicaSet has all replicas that the Deployment should have, and they are
// available.
//
//upstream:pkg/controller/deployment/util.IsSaturated
func saturated(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	annotated, ok := annotatedReplicas(rs, desiredReplicasAnnotation)
	return ok && annotated == desired(d) && replicas(rs) == desired(d) && available(rs) == desired(d)
}

// proportions returns the replicas of the active ReplicaSets of a rollout after a change of the
// Deployment's replicas. The replicas to be added or removed are divided in proportion, from the largest
// ReplicaSet to the smallest. Of several with the same size, the newest is the first to grow, and the oldest
// the first to shrink. The largest gets the remainder.
//
//upstream:pkg/controller/deployment.DeploymentController.scale
//upstream:pkg/controller/deployment/util.GetReplicaSetProportion
func proportions(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) map[*appsv1.ReplicaSet]int32 {
	allowed := int32(0)
	if desired(d) > 0 {
		allowed = desired(d) + maxSurge(d)
	}
	left := allowed - sum(sets, replicas)
	grows := left > 0
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		byAge := compareAge(a, b)
		if grows {
			byAge = -byAge
		}
		return cmp.Or(cmp.Compare(replicas(b), replicas(a)), byAge)
	})
	size := map[*appsv1.ReplicaSet]int32{}
	for _, rs := range sets {
		n := int32(0)
		switch {
		case left > 0:
			n = int32(min(share(d, rs), int64(left)))
		case left < 0:
			n = int32(max(share(d, rs), int64(left)))
		}
		size[rs] = replicas(rs) + n
		left -= n
	}
	size[sets[0]] = max(0, size[sets[0]]+left)
	return size
}

// share returns how many replicas a ReplicaSet has to gain so that its part in the Deployment's maximum
// stays the same, rounded. It is negative if the ReplicaSet has to lose replicas.
//
//upstream:pkg/controller/deployment/util.getReplicaSetFraction
func share(d *appsv1.Deployment, rs *appsv1.ReplicaSet) int64 {
	if desired(d) == 0 {
		return -int64(replicas(rs))
	}
	before, _ := annotatedReplicas(rs, maxReplicasAnnotation)
	if before == 0 {
		before = d.Status.Replicas // somebody has changed the annotation
	}
	if before == 0 {
		return 0
	}
	now := float64(desired(d) + maxSurge(d))
	return int64(math.Round(float64(replicas(rs))*now/float64(before))) - int64(replicas(rs))
}

// beyondHistoryLimit returns the old ReplicaSets beyond the revision history limit that have no replicas.
// Those with replicas count towards the limit.
//
//upstream:pkg/controller/deployment.DeploymentController.cleanupDeployment
func beyondHistoryLimit(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	if d.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	alive := slices.DeleteFunc(slices.Clone(old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	if d.Spec.Paused {
		slices.Reverse(alive) // as in kube-controller-manager; matters for revisions that are not numbers
	}
	slices.SortStableFunc(alive, compareRevision)
	return slices.DeleteFunc(alive[:max(0, len(alive)-int(*d.Spec.RevisionHistoryLimit))], func(rs *appsv1.ReplicaSet) bool {
		return replicas(rs) != 0 || rs.Status.Replicas != 0 || rs.Generation > rs.Status.ObservedGeneration
	})
}

// newReplicaSetReplicas returns the replicas with which the new ReplicaSet is created.
//
//upstream:pkg/controller/deployment/util.NewRSNewReplicas
func newReplicaSetReplicas(d *appsv1.Deployment, old []*appsv1.ReplicaSet) int32 {
	if recreates(d) {
		return desired(d)
	}
	return max(0, min(desired(d), desired(d)+maxSurge(d)-sum(old, replicas)))
}

// recreates reports whether a Deployment deletes all old pods before it creates new ones.
func recreates(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// desired returns the replicas that a Deployment should have.
func desired(d *appsv1.Deployment) int32 { return ptr.Deref(d.Spec.Replicas, 1) }

// maxSurge returns how many pods there may be beyond the desired replicas.
//
//upstream:pkg/controller/deployment/util.MaxSurge
func maxSurge(d *appsv1.Deployment) int32 {
	if r := d.Spec.Strategy.RollingUpdate; r != nil && !recreates(d) {
		return resolve(r.MaxSurge, desired(d), true)
	}
	return 0
}

// maxUnavailable returns how many pods may be unavailable: at least one if maxSurge is zero, or no
// rollout would ever make progress.
//
//upstream:pkg/controller/deployment/util.MaxUnavailable
func maxUnavailable(d *appsv1.Deployment) int32 {
	r := d.Spec.Strategy.RollingUpdate
	if r == nil || recreates(d) || desired(d) == 0 {
		return 0
	}
	n := resolve(r.MaxUnavailable, desired(d), false)
	if n == 0 && maxSurge(d) == 0 {
		n = 1
	}
	return min(n, desired(d))
}

// resolve returns a number, or a percentage of a number.
//
//upstream:pkg/controller/deployment/util.ResolveFenceposts
func resolve(v *intstr.IntOrString, of int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(v, intstr.FromInt32(0)), int(of), up)
	if err != nil {
		return 0 // validation accepts only numbers and percentages
	}
	return int32(n)
}

// replicas returns the replicas that a ReplicaSet should have.
func replicas(rs *appsv1.ReplicaSet) int32 { return ptr.Deref(rs.Spec.Replicas, 1) }

func available(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }

// active returns the ReplicaSets that should have replicas.
//
//upstream:pkg/controller.FilterActiveReplicaSets
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var list []*appsv1.ReplicaSet
	for _, rs := range sets {
		if replicas(rs) > 0 {
			list = append(list, rs)
		}
	}
	return list
}

// sum returns the sum of a number over the ReplicaSets.
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
