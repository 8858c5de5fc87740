package daemonset

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// surgeCount returns how many of n nodes may have a second pod during a rolling update.
//
//upstream:pkg/controller/daemon/util.SurgeCount
func surgeCount(set *appsv1.DaemonSet, n int) (int, error) {
	r := rollingUpdate(set)
	if r == nil || r.MaxSurge == nil {
		return 0, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, n, true)
}

// unavailableCount returns how many of n nodes may be without an available pod during a rolling update.
//
//upstream:pkg/controller/daemon/util.UnavailableCount
func unavailableCount(set *appsv1.DaemonSet, n int) (int, error) {
	r := rollingUpdate(set)
	if r == nil {
		return 0, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, n, true)
}

// rollingUpdate returns the parameters of rolling updates, or nil.
func rollingUpdate(set *appsv1.DaemonSet) *appsv1.RollingUpdateDaemonSet {
	if set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return nil
	}
	return set.Spec.UpdateStrategy.RollingUpdate
}

// surges reports whether a node may have a second pod during a rolling update.
//
//upstream:pkg/controller/daemon/util.AllowsSurge
func (o *observed) surges() bool {
	n, err := surgeCount(o.set, 1)
	return err == nil && n > 0
}

// desired returns the number of nodes that should have a pod.
func (o *observed) desired() (n int) {
	for _, f := range o.fits {
		if f.run {
			n++
		}
	}
	return n
}

// limits returns the number of nodes that may have a second pod, and the number that may be without an available one. At
// least one of them is not zero if a node should have a pod.
//
//upstream:pkg/controller/daemon.DaemonSetsController.updatedDesiredNodeCounts
func (o *observed) limits() (surge, unavailable int, err error) {
	n := o.desired()
	if unavailable, err = unavailableCount(o.set, n); err != nil {
		return 0, 0, fmt.Errorf("invalid value for MaxUnavailable: %w", err)
	}
	if surge, err = surgeCount(o.set, n); err != nil {
		return 0, 0, fmt.Errorf("invalid value for MaxSurge: %w", err)
	}
	if n > 0 && surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable, nil
}

// rolloutPlan returns the next step of a rolling update. It is for a state in which managePlan does nothing.
//
//upstream:pkg/controller/daemon.DaemonSetsController.rollingUpdate
func (o *observed) rolloutPlan() (plan, error) {
	surge, unavailable, err := o.limits()
	switch {
	case err != nil:
		return plan{}, err
	case surge == 0:
		return o.replacePlan(unavailable), nil
	}
	return o.surgePlan(surge)
}

// rolling returns the nodes that take part in a rolling update, sorted: the nodes that have pods or should have one.
func (o *observed) rolling() []string {
	names := map[string]bool{}
	for name, f := range o.fits {
		if f.run {
			names[name] = true
		}
	}
	for name := range o.pods {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// pair returns the pod of the present template on a node and the older one. Pods that are being deleted do not count. ok is
// false if there are several of either.
//
//upstream:pkg/controller/daemon.findUpdatedPodsOnNode
func (o *observed) pair(node string) (isNew, isOld *corev1.Pod, ok bool) {
	for _, pod := range notDeleted(o.pods[node]) {
		is := &isOld
		if o.updated(pod) {
			is = &isNew
		}
		if *is != nil {
			return nil, nil, false
		}
		*is = pod
	}
	return isNew, isOld, true
}

// replacePlan deletes older pods: those that are not available, and as many of the others as leave no more than the
// maximum of nodes without an available pod.
func (o *observed) replacePlan(maxUnavailable int) (p plan) {
	var candidates []*corev1.Pod
	for _, name := range o.rolling() {
		isNew, isOld, ok := o.pair(name)
		switch {
		case !ok, (isOld == nil) == (isNew == nil): // to be managed first
			maxUnavailable--
		case isNew != nil:
			if !o.available(isNew) {
				maxUnavailable--
			}
		case !o.available(isOld):
			p.delete = append(p.delete, isOld)
			maxUnavailable--
		default:
			candidates = append(candidates, isOld)
		}
	}
	p.delete = append(p.delete, candidates[:min(len(candidates), max(0, maxUnavailable))]...)
	return p
}

// surgePlan creates a second pod on nodes with an older pod: on all where that one is not available, and on as many of
// the others as the maximum allows. It deletes the older pod when the second one is available. Of nodes that should have
// no pod any more, it deletes available pods only when enough others are available.
func (o *observed) surgePlan(maxSurge int) (p plan, err error) {
	var leaving []*corev1.Pod // available, on nodes that should have no pod
	var candidates []string
	available := 0
	for _, name := range o.rolling() {
		isNew, isOld, ok := o.pair(name)
		if !ok { // to be managed first
			maxSurge--
			continue
		}
		if only := firstOf(isOld, isNew); only != nil && o.available(only) {
			available++
		}
		switch {
		case isOld == nil: // to be managed
		case isNew != nil && o.available(isNew):
			p.delete = append(p.delete, isOld)
		case isNew != nil:
			maxSurge--
		default:
			f, exists := o.fits[name]
			if !exists {
				return plan{}, fmt.Errorf("couldn't get node for nodeName %q", name)
			}
			switch isAvailable := o.available(isOld); {
			case isAvailable && f.run:
				candidates = append(candidates, name)
			case isAvailable:
				leaving = append(leaving, isOld)
			case f.run:
				p.create = append(p.create, name)
			default:
				p.delete = append(p.delete, isOld)
			}
		}
	}
	p.delete = append(p.delete, leaving[:min(len(leaving), max(0, available-o.desired()))]...)
	p.create = append(p.create, candidates[:min(len(candidates), max(0, maxSurge))]...)
	return p, nil
}

// firstOf returns the first pod that is not nil, or nil.
func firstOf(pods ...*corev1.Pod) *corev1.Pod {
	for _, pod := range pods {
		if pod != nil {
			return pod
		}
	}
	return nil
}
