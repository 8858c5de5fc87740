package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	upstream "k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/daemonset"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestDaemonSets compares which pods and revisions a DaemonSet adopts, releases, creates and deletes, and its status.
func TestDaemonSets(t *testing.T) {
	comparison{
		name:   "daemonset",
		worlds: 2000,
		atLeast: map[string]int{"create pods": 30, "delete pods": 40, "update pods": 5, "create controllerrevisions.apps": 20,
			"update controllerrevisions.apps": 10, "delete controllerrevisions.apps": 5, "update status of daemonsets.apps": 60},
		kinds: []client.Object{&appsv1.DaemonSet{}, &corev1.Pod{}, &corev1.Node{}, &appsv1.ControllerRevision{}},
		add:   daemonset.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			d, err := upstream.NewDaemonSetsController(ctx, f.Apps().V1().DaemonSets(), f.Apps().V1().ControllerRevisions(), f.Core().V1().Pods(),
				f.Core().V1().Nodes(), c, flowcontrol.NewBackOff(time.Second, 15*time.Minute))
			return func(ctx context.Context) { d.Run(ctx, 1) }, err
		},
		order:    orderDaemonSet,
		generate: generateDaemonSet,
	}.compare(t)
}

// candidate marks the older available pods. Kubernetes updates any of them, as many as the strategy allows.
const candidate = "example.com/candidate"

// orderDaemonSet makes the first of the candidates the ones that are updated, and gives created pods the names of their nodes.
func orderDaemonSet(w *world) {
	var candidates []*corev1.Pod
	deleted, nodes := 0, map[string]bool{}
	for _, o := range w.list(corev1.Resource("pods")) {
		if pod := o.(*corev1.Pod); pod.Annotations[candidate] != "" {
			candidates = append(candidates, pod)
			nodes[pod.Spec.NodeName] = true
			if pod.DeletionTimestamp != nil {
				deleted++
			}
		}
	}
	w.mergeEvents(func(text string) string {
		for _, pod := range candidates {
			if text == "Normal SuccessfulDelete: Deleted pod: "+pod.Name {
				return "Normal SuccessfulDelete: Deleted pod: candidate"
			}
		}
		return text
	})
	for i, pod := range candidates {
		pod.DeletionTimestamp = nil
		if i < deleted {
			pod.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
		}
	}
	w.renamePods(func(pod *corev1.Pod) string {
		node := requiredNode(pod)
		if nodes[node] { // a second pod on the node of a candidate
			node = "candidate"
			pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] = node
		}
		return "x-on-" + node
	})
}

// requiredNode returns the node that a pod requires.
func requiredNode(pod *corev1.Pod) string {
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

// renamePods renames the pods that were created in the world. Names that several of them get are numbered.
func (w *world) renamePods(name func(*corev1.Pod) string) {
	taken := map[string]int{}
	for _, o := range w.list(corev1.Resource("pods")) {
		pod := o.(*corev1.Pod)
		if !strings.Contains(pod.Name, "generated-") {
			continue
		}
		was := keyOf(pod)
		base := name(pod)
		taken[base]++
		delete(w.objects, was)
		pod.Name = fmt.Sprint(base, "-", taken[base])
		pod.UID = types.UID(pod.Name)
		w.objects[keyOf(pod)] = pod
	}
	w.mergeEvents(func(text string) string { before, _, _ := strings.Cut(text, "generated-"); return before })
}

// mergeEvents replaces the texts of the events.
func (w *world) mergeEvents(by func(string) string) {
	merged := map[string]int{}
	for text, n := range w.events {
		merged[by(text)] += n
	}
	w.events = merged
}

func generateDaemonSet(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	set := &appsv1.DaemonSet{ObjectMeta: object(s, ns, "x"), Spec: appsv1.DaemonSetSpec{
		Selector: newSelector(s), Template: newTemplate(s), MinReadySeconds: random.Pick[int32](s, 0, 0, 0, 5, 30),
		UpdateStrategy: newDaemonSetStrategy(s), RevisionHistoryLimit: ptr.To(int32(s.IntN(3)))}}
	if set.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: random.Pick(s, "1", "2", "x")}; s.Chance(20) {
		set.Annotations = nil
	}
	set.Spec.Template.Finalizers = nil
	if len(set.Spec.Selector.MatchExpressions) > 0 {
		delete(set.Spec.Template.Labels, "more") // so that the selector matches
	}
	newDaemonSetPlacement(s, &set.Spec.Template.Spec)
	deleted(s, set)
	if s.Chance(30) {
		set.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: int32(s.IntN(4)), NumberReady: int32(s.IntN(4)), ObservedGeneration: int64(s.IntN(4)),
			NumberMisscheduled: int32(s.IntN(2))}
	}
	if s.Chance(15) {
		set.Status.CollisionCount = ptr.To(int32(s.IntN(2)))
	}
	objects := []client.Object{set}
	revisions, hashes := newDaemonSetRevisions(s, set)
	for _, r := range revisions {
		objects = append(objects, r)
	}
	for i := range s.IntN(6) {
		objects = append(objects, newDaemonSetNode(s, string(rune('a'+i))))
	}
	for i := range s.IntN(7) {
		objects = append(objects, newDaemonSetPod(s, set, i, hashes))
	}
	markCandidates(set, objects)
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
	return objects, set, refusing(s, forbidden, "create pods", "delete pods", "create controllerrevisions")
}

func newDaemonSetStrategy(s *random.Source) appsv1.DaemonSetUpdateStrategy {
	if s.Chance(20) {
		return appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	share := func() *intstr.IntOrString {
		return ptr.To(random.Pick(s, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(5), intstr.FromString("30%"), intstr.FromString("100%")))
	}
	u := appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: share()}}
	if s.Chance(45) {
		u.RollingUpdate.MaxSurge = share()
	}
	return u
}

// newDaemonSetPlacement sometimes restricts the nodes of the pods.
func newDaemonSetPlacement(s *random.Source, spec *corev1.PodSpec) {
	if s.Chance(15) {
		spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	if s.Chance(5) {
		spec.NodeName = "a"
	}
	spec.HostNetwork = s.Chance(15)
	if s.Chance(25) {
		spec.Tolerations = []corev1.Toleration{{Key: random.Pick(s, "dedicated", corev1.TaintNodeNotReady, ""), Operator: corev1.TolerationOpExists,
			Effect: random.Pick(s, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}}
		if s.Chance(30) {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)})
		}
	}
	if s.Chance(25) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		if s.Chance(70) {
			spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: random.Pick(s, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)}}}}}
		}
		if s.Chance(20) {
			spec.Affinity.PodAffinity = &corev1.PodAffinity{}
		}
	}
}

func newDaemonSetNode(s *random.Source, name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	if s.Chance(60) {
		node.Labels = map[string]string{"disk": random.Pick(s, "ssd", "ssd", "hdd")}
	}
	for _, key := range []string{"dedicated", corev1.TaintNodeNotReady, corev1.TaintNodeUnschedulable, corev1.TaintNodeNetworkUnavailable} {
		if s.Chance(12) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: random.Pick(s, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoSchedule,
				corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule)})
		}
	}
	return node
}

// newDaemonSetRevisions returns revisions, and the hashes of their templates, the last one of the present template.
func newDaemonSetRevisions(s *random.Source, set *appsv1.DaemonSet) (list []*appsv1.ControllerRevision, hashes []string) {
	images := []string{"old", "older", set.Spec.Template.Spec.Containers[0].Image}
	if s.Chance(10) {
		images = append(images, images[2]) // a duplicate
		// Kubernetes may not see yet that it has labelled the pods anew, update them, and keep the revisions that they had.
		set.Spec.UpdateStrategy, set.Spec.RevisionHistoryLimit = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}, ptr.To[int32](10)
	}
	for i, image := range images {
		if s.Chance(30) {
			continue
		}
		of := set.DeepCopy()
		of.Spec.Template.Spec.Containers[0].Image = image
		data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": withPatch(of.Spec.Template)}})
		if err != nil {
			panic(err)
		}
		hash := fmt.Sprint("r", i)
		r := &appsv1.ControllerRevision{ObjectMeta: object(s, set.Namespace, "x-"+hash), Revision: int64(10*s.IntN(3) + i), Data: runtime.RawExtension{Raw: data}}
		r.Labels, r.OwnerReferences = map[string]string{"app": "x", "controller-revision-hash": hash}, []metav1.OwnerReference{*metav1.NewControllerRef(set, kindOf(set))}
		if s.Chance(10) {
			r.Labels, r.OwnerReferences = labelled(s), ownedBy(s, set)
			r.Labels["controller-revision-hash"] = hash
		}
		if s.Chance(10) {
			delete(r.Labels, "controller-revision-hash")
		}
		list, hashes = append(list, r), append(hashes, hash)
	}
	return list, hashes
}

func newDaemonSetPod(s *random.Source, set *appsv1.DaemonSet, i int, hashes []string) *corev1.Pod {
	meta := object(s, set.Namespace, fmt.Sprint("p", i))
	meta.Labels, meta.OwnerReferences = map[string]string{"app": "x"}, []metav1.OwnerReference{*metav1.NewControllerRef(set, kindOf(set))}
	if s.Chance(12) {
		meta.Labels, meta.OwnerReferences = labelled(s), ownedBy(s, set)
	}
	if s.Chance(90) {
		meta.Labels["controller-revision-hash"] = random.Pick(s, append(hashes, "gone")...)
	}
	if s.Chance(30) {
		meta.Labels["pod-template-generation"] = random.Pick(s, "1", "2", "x")
	}
	pod := newPod(s, meta)
	pod.Annotations = nil
	if s.Chance(60) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ago(s))}}
	}
	if pod.Spec.NodeName = string(rune('a' + i)); s.Chance(15) {
		pod.Spec.NodeName = random.Pick(s, "a", "b", "c")
	}
	if s.Chance(15) {
		node := pod.Spec.NodeName
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		// Kubernetes does not know any more what it adopts and deletes at once.
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, kindOf(set))}
		if s.Chance(90) {
			values := []string{node}
			if s.Chance(5) {
				values = append(values, "z")
			}
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: values}}}}}}}
		}
	}
	return pod
}

// markCandidates annotates the pods among which Kubernetes chooses at random: the ready pods that are alone on their nodes. If a
// node has several pods, the rolling update has no limits, so that it updates all pods.
func markCandidates(set *appsv1.DaemonSet, objects []client.Object) {
	on := map[string][]*corev1.Pod{}
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
			if phase := pod.Status.Phase; (phase == corev1.PodFailed || phase == corev1.PodSucceeded) && len(pod.Status.Conditions) > 0 {
				// As kubelet leaves it. On a node that does not exist, a ready one would be a candidate.
				pod.Status.Conditions[0].Status = corev1.ConditionFalse
			}
		}
	}
	for node, pods := range on {
		pod := pods[0]
		switch {
		case node == "":
		case len(pods) > 1:
			unlimited := intstr.FromInt32(99)
			if r := set.Spec.UpdateStrategy.RollingUpdate; r == nil {
			} else if r.MaxSurge == nil {
				r.MaxUnavailable = &unlimited
			} else {
				r.MaxSurge = &unlimited
			}
		case pod.DeletionTimestamp == nil && len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue:
			pod.Annotations = map[string]string{candidate: "true"}
		}
	}
}
