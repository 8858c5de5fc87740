package scheduling

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"flyball.dev/controllers/scheduler/framework"
	"flyball.dev/test/mirror/random"
)

// scorers are the plugins that score nodes. Each must prefer some node in some world.
var scorers = []string{"TaintToleration", "NodeAffinity", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread", "InterPodAffinity",
	"NodeResourcesBalancedAllocation", "ImageLocality"}

// outcomes must occur.
var outcomes = []string{
	"scheduled", "pending", "preempted", "several victims", "nominated node", "20 nodes or more", "several nominated pods",
	"node(s) were unschedulable", "node(s) had untolerated taint(s)", "node(s) didn't match Pod's node affinity/selector",
	"node(s) didn't have free ports for the requested pod ports", "Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient example.com/gpu",
	"node(s) didn't match pod topology spread constraints", "node(s) didn't match pod topology spread constraints (missing required label)",
	"node(s) didn't match pod affinity rules", "node(s) didn't match pod anti-affinity rules", "node(s) didn't satisfy existing pods anti-affinity rules",
	"node(s) had no available disk", "node(s) had no available volume zone", "node(s) didn't match PersistentVolume's node affinity",
	"node(s) didn't find available persistent volumes to bind", "node(s) did not have enough free storage", "node(s) exceed max volume count",
	"pod has unbound immediate PersistentVolumeClaims", "csi.example.com CSI driver is not installed on the node",
	"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
}

// world is nodes with pods, other objects, and a pod to schedule.
type world struct {
	roomy     bool // little keeps a pod from a node, so that scores matter
	nodes     []*corev1.Node
	bound     []*corev1.Pod
	nominated []*corev1.Pod
	objects   []runtime.Object
	pod       *corev1.Pod

	candidates map[string][]*framework.Pod // the victims that ours finds equally good, by node
}

// victims returns the names of the victims that ours finds equally good, by node.
func (w *world) victims() map[string][]string {
	names := map[string][]string{}
	for node, pods := range w.candidates {
		names[node] = remaining(pods)
	}
	return names
}

func kindOf(o runtime.Object) string { return reflect.TypeOf(o).Elem().Name() }

// snapshot returns the world as ours sees it.
func (w *world) snapshot() *framework.Snapshot {
	s := framework.NewSnapshot()
	for _, o := range w.objects {
		s.Objects.Set(o)
	}
	for _, n := range w.nodes {
		s.SetNode(n)
	}
	for _, p := range w.bound {
		s.SetPod(p)
	}
	for _, p := range w.nominated {
		s.Nominate(p, p.Status.NominatedNodeName)
	}
	return s
}

func (w *world) text() string {
	b := &strings.Builder{}
	print := func(o any) {
		if n, ok := o.(*corev1.Node); ok {
			o = map[string]any{"metadata": n.ObjectMeta, "spec": n.Spec, "allocatable": n.Status.Allocatable, "images": n.Status.Images}
		}
		y, _ := yaml.Marshal(o)
		fmt.Fprintf(b, "--- %T\n%s", o, y)
	}
	for _, n := range w.nodes {
		print(n)
	}
	for _, p := range slices.Concat(w.bound, w.nominated) {
		print(p)
	}
	for _, o := range w.objects {
		print(o)
	}
	print(w.pod)
	return b.String()
}

func newWorld(s *random.Source) *world {
	w := &world{roomy: s.Chance(60)}
	nodes := 1 + s.IntN(7)
	if s.Chance(3) {
		nodes = 20 + s.IntN(80) // kube-scheduler looks at all of fewer than 100 nodes
	}
	for i := range nodes {
		w.nodes = append(w.nodes, w.newNode(s, fmt.Sprint("n", i)))
	}
	w.addControllers(s)
	w.addStorage(s)
	for i := range s.IntN(4 * len(w.nodes)) {
		p := w.newPod(s, fmt.Sprint("b", i))
		p.Spec.NodeName = random.Pick(s, w.nodes...).Name
		p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1000+100*s.IntN(5)+i), 0)} // no two are equally important
		if s.Chance(10) {
			p.DeletionTimestamp = ptr.To(metav1.Unix(2000, 0))
		}
		w.bound = append(w.bound, p)
	}
	for i := range random.Pick(s, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3) {
		p := w.newPod(s, fmt.Sprint("nominated", i))
		p.Status.NominatedNodeName = random.Pick(s, w.nodes...).Name
		w.nominated = append(w.nominated, p)
	}
	w.pod = w.newPod(s, "pod")
	if s.Chance(10) {
		w.pod.Status.NominatedNodeName = random.Pick(s, w.nodes...).Name
	}
	if s.Chance(5) {
		w.pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	}
	return w
}

var imageNames = []string{"small:1", "large:1", "huge:2"}

func (w *world) newNode(s *random.Source, name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	if s.Chance(85) {
		n.Labels[corev1.LabelTopologyZone] = random.Pick(s, "z1", "z2", "z3")
	}
	if s.Chance(60) {
		n.Labels["rack"] = random.Pick(s, "r1", "r2")
	}
	if s.Chance(8) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, key := range []string{"k", "l"} {
		if s.Chance(20) {
			effects := []corev1.TaintEffect{corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}
			if w.roomy {
				effects = effects[:2]
			}
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: random.Pick(s, effects...)})
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": quantity(s, "1", "2", "4", "3500m"), "memory": quantity(s, "1Gi", "2Gi", "8Gi"),
		"pods": quantity(s, "2", "4", "10", "110")}
	if w.roomy {
		n.Status.Allocatable = corev1.ResourceList{"cpu": quantity(s, "20", "30"), "memory": quantity(s, "20Gi", "30Gi"), "pods": quantity(s, "110")}
	}
	if s.Chance(40) {
		n.Status.Allocatable["example.com/gpu"] = quantity(s, "1", "2", "4")
	}
	if s.Chance(5) {
		delete(n.Status.Allocatable, random.Pick[corev1.ResourceName](s, "cpu", "memory"))
	}
	for i, name := range imageNames {
		if s.Chance(40) {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: []int64{10 << 20, 300 << 20, 3000 << 20}[i]})
		}
	}
	return n
}

func quantity(s *random.Source, values ...string) resource.Quantity {
	return resource.MustParse(random.Pick(s, values...))
}

// addControllers adds namespaces, Services, ReplicaSets, StatefulSets and budgets.
func (w *world) addControllers(s *random.Source) {
	for _, ns := range []string{"ns", "other"} {
		w.objects = append(w.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"team": random.Pick(s, "x", "y")}}})
		if s.Chance(40) {
			w.objects = append(w.objects, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s"},
				Spec: corev1.ServiceSpec{Selector: random.Pick(s, map[string]string{"app": "a"}, map[string]string{"tier": "t"}, nil)}})
		}
		selector := random.Pick(s, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, newSelector(s))
		w.objects = append(w.objects, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "rs"}, Spec: appsv1.ReplicaSetSpec{Selector: selector}},
			&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ss"}, Spec: appsv1.StatefulSetSpec{Selector: selector}})
		for i := range s.IntN(3) {
			w.objects = append(w.objects, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("b", i)},
				Spec:   policyv1.PodDisruptionBudgetSpec{Selector: newSelector(s)},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(s.IntN(2)), DisruptedPods: random.Pick(s, nil, map[string]metav1.Time{"b1": {}})}})
		}
	}
}

func newSelector(s *random.Source) *metav1.LabelSelector {
	switch s.IntN(6) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	case 3:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "t"}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": random.Pick(s, "a", "b")}}
}

// addStorage adds classes, volumes, claims and what CSI drivers publish.
func (w *world) addStorage(s *random.Source) {
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	}
	topology := class("topology", "csi.example.com", storagev1.VolumeBindingWaitForFirstConsumer)
	topology.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: corev1.LabelTopologyZone, Values: []string{"z1", "z2"}}}}}
	w.objects = append(w.objects, topology, class("wait", "csi.example.com", storagev1.VolumeBindingWaitForFirstConsumer),
		class("static", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer), class("now", "csi.example.com", storagev1.VolumeBindingImmediate))
	if s.Chance(50) {
		w.objects = append(w.objects, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"},
			Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(s.Chance(70)), PreventPodSchedulingIfMissing: random.Pick(s, nil, ptr.To(true))}})
	}
	for i, zone := range []string{"z1", "z2", "z3"} {
		if s.Chance(60) {
			w.objects = append(w.objects, &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprint("c", i)},
				StorageClassName: random.Pick(s, "wait", "topology"), Capacity: ptr.To(quantity(s, "1Gi", "3Gi", "10Gi")),
				NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: zone}}})
		}
	}
	for _, n := range w.nodes {
		if s.Chance(60) {
			w.objects = append(w.objects, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
				{Name: "csi.example.com", Allocatable: random.Pick(s, nil, &storagev1.VolumeNodeResources{Count: ptr.To(int32(s.IntN(3)))})}}}})
		}
	}
	for i := range 6 {
		w.addVolume(s, i)
	}
	if s.Chance(30) {
		w.objects = append(w.objects, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com",
			NodeName: random.Pick(s, w.nodes...).Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("v1")}}})
	}
}

// addVolume adds a volume and a claim. The first claims are bound to their volumes.
func (w *world) addVolume(s *random.Source, i int) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("v", i)}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprint(i+2, "Gi"))} // no two are equally good
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.StorageClassName = random.Pick(s, "static", "static", "wait")
	if s.Chance(50) {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: v.Name}
	}
	if s.Chance(40) {
		v.Labels = map[string]string{random.Pick(s, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone): random.Pick(s, "z1", "z2", "z1__z3")}
	}
	if s.Chance(60) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{random.Pick(s, "z1", "z2", "z3")}}}}}}}
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("c", i), UID: types.UID(fmt.Sprint("c", i))}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{random.Pick(s, corev1.ReadWriteOnce, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: quantity(s, "1Gi", "2Gi", "4Gi")}
	c.Spec.StorageClassName = ptr.To(random.Pick(s, "static", "wait", "wait", "topology", "now"))
	switch {
	case i < 3:
		c.Spec.StorageClassName, c.Spec.VolumeName, c.Status.Phase = &v.Spec.StorageClassName, v.Name, corev1.ClaimBound
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		v.Spec.ClaimRef, v.Status.Phase = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}, corev1.VolumeBound
	case s.Chance(10):
		c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": random.Pick(s, w.nodes...).Name}
	case s.Chance(10):
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name}
		v.Spec.StorageClassName = *c.Spec.StorageClassName
	}
	if s.Chance(5) {
		c.DeletionTimestamp = ptr.To(metav1.Unix(2000, 0))
	}
	if !s.Chance(3) {
		w.objects = append(w.objects, c)
	}
	if !s.Chance(3) {
		w.objects = append(w.objects, v)
	}
}
