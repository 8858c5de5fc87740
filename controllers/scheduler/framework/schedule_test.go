package framework

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// parse returns an object of YAML with defaults for a test.
func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return object
}

// newNode returns a ready node in a zone with 4 CPUs.
func newNode(t testing.TB, name, zone, spec string) *corev1.Node {
	n := parse[corev1.Node](t, `{metadata: {labels: {kubernetes.io/hostname: `+name+`, topology.kubernetes.io/zone: `+zone+`}},
		status: {allocatable: {cpu: 4, memory: 4Gi, pods: 10}, conditions: [{type: Ready, status: "True"}]}}`)
	n.Name, n.Spec = name, *parse[corev1.NodeSpec](t, spec)
	return n
}

// newTestPod returns a pod of the app "web".
func newTestPod(t testing.TB, name, node, spec string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
	p.Spec = *parse[corev1.PodSpec](t, spec)
	p.Spec.NodeName = node
	return p
}

// cluster has the nodes a and b in the zone 1, and c in the zone 2. The pods are on the node a, and on b if they begin with b.
func cluster(t testing.TB, pods map[string]string, objects ...runtime.Object) *Snapshot {
	s := NewSnapshot()
	for name, zone := range map[string]string{"a": `"1"`, "b": `"1"`, "c": `"2"`} {
		s.SetNode(newNode(t, name, zone, "{}"))
	}
	for name, spec := range pods {
		node := "a"
		if strings.HasPrefix(name, "b") {
			node = "b"
		}
		s.SetPod(newTestPod(t, name, node, spec))
	}
	for _, o := range objects {
		s.Objects.Set(o)
	}
	return s
}

const (
	selector     = `labelSelector: {matchLabels: {app: web}}`
	zone         = `topologyKey: topology.kubernetes.io/zone`
	host         = `topologyKey: kubernetes.io/hostname`
	required     = `requiredDuringSchedulingIgnoredDuringExecution`
	preferredFor = `preferredDuringSchedulingIgnoredDuringExecution`
)

// TestSchedule has a case for each plugin: the node that it selects, or the message.
func TestSchedule(t *testing.T) {
	cpu := func(amount string) string {
		return `{containers: [{name: c, resources: {requests: {cpu: ` + amount + `}}}]}`
	}
	claim := func(name, class, volume string) *corev1.PersistentVolumeClaim {
		c := parse[corev1.PersistentVolumeClaim](t, `{spec: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Gi}}}}`)
		c.Namespace, c.Name, c.Spec.StorageClassName, c.Spec.VolumeName = "default", name, &class, volume
		if volume != "" {
			c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		}
		return c
	}
	volume := func(name, class, node string) *corev1.PersistentVolume {
		v := parse[corev1.PersistentVolume](t, `{spec: {accessModes: [ReadWriteOncePod], capacity: {storage: 1Gi}}, status: {phase: Available}}`)
		v.Name, v.Spec.StorageClassName = name, class
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
		return v
	}
	waiting := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "wait"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	using := func(claim string) string {
		return `{containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: ` + claim + `}}]}`
	}
	useless := func(n string) string {
		return " preemption: 0/3 nodes are available: " + n + " Preemption is not helpful for scheduling."
	}
	for name, test := range map[string]struct {
		pods    map[string]string
		objects []runtime.Object
		spec    string
		want    string
	}{
		"the emptiest node": {pods: map[string]string{"a1": cpu("1"), "b1": cpu("1")}, spec: cpu("1"), want: "c"},
		"resources": {pods: map[string]string{"a1": cpu("1")}, spec: cpu("9"),
			want: "0/3 nodes are available: 3 Insufficient cpu." + useless("3")},
		"resources in use": {pods: map[string]string{"a1": cpu("3"), "b1": cpu("3")},
			spec: `{containers: [{name: c, resources: {requests: {cpu: 2}}}], nodeSelector: {topology.kubernetes.io/zone: "1"}}`,
			want: "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu. " +
				"preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."},
		"balance": {pods: map[string]string{"a1": `{containers: [{name: c, resources: {requests: {memory: 2Gi}}}]}`, "b1": cpu("2")},
			spec: `{containers: [{name: c, resources: {requests: {cpu: 2}}}], nodeSelector: {topology.kubernetes.io/zone: "1"}}`, want: "a"},
		"node selector": {spec: `{nodeSelector: {disk: ssd}, containers: [{name: c}]}`,
			want: "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector." + useless("3")},
		"a node by its name": {spec: `{affinity: {nodeAffinity: {` + required + `: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}},
			containers: [{name: c, resources: {requests: {cpu: 9}}}]}`,
			want: "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]." + useless("3")},
		"preferred node": {spec: `{affinity: {nodeAffinity: {` + preferredFor + `: [{weight: 1, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [b]}]}}]}}, containers: [{name: c}]}`,
			want: "b"},
		"host port": {pods: map[string]string{"a1": `{containers: [{name: c, ports: [{containerPort: 1, hostPort: 80}]}]}`},
			spec: `{nodeSelector: {kubernetes.io/hostname: a}, containers: [{name: c, ports: [{containerPort: 1, hostPort: 80}]}]}`,
			want: "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 2 node(s) didn't match Pod's node affinity/selector. " +
				"preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."},
		"affinity": {pods: map[string]string{"b1": cpu("3")}, want: "b",
			spec: `{affinity: {podAffinity: {` + required + `: [{` + host + `, ` + selector + `}]}}, containers: [{name: c}]}`},
		"affinity that nothing matches": {pods: map[string]string{"b1": cpu("3")},
			spec: `{affinity: {podAffinity: {` + required + `: [{` + host + `, labelSelector: {matchLabels: {app: db}}}]}}, containers: [{name: c}]}`,
			want: "0/3 nodes are available: 3 node(s) didn't match pod affinity rules." + useless("3")},
		"the first pod of a group": {want: "a", spec: `{affinity: {podAffinity: {` + required + `: [{` + zone + `, ` + selector + `}]}}, containers: [{name: c}]}`},
		"anti-affinity": {pods: map[string]string{"b1": cpu("1")}, want: "c",
			spec: `{affinity: {podAntiAffinity: {` + required + `: [{` + zone + `, ` + selector + `}]}}, containers: [{name: c}]}`},
		"anti-affinity of other pods": {pods: map[string]string{"a1": `{affinity: {podAntiAffinity: {` + required + `: [{` + zone + `, ` + selector + `}]}}, containers: [{name: c}]}`},
			want: "c", spec: `{containers: [{name: c}]}`},
		"preferred affinity": {pods: map[string]string{"b1": cpu("1")}, want: "b",
			spec: `{affinity: {podAffinity: {` + preferredFor + `: [{weight: 100, podAffinityTerm: {` + host + `, ` + selector + `}}]}}, containers: [{name: c}]}`},
		"topology spread": {pods: map[string]string{"a1": cpu("100m"), "b1": cpu("100m")}, want: "c",
			spec: `{topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule, ` + zone + `, ` + selector + `}], containers: [{name: c, resources: {requests: {cpu: 3500m}}}]}`},
		"topology spread that fails": {pods: map[string]string{"a1": cpu("100m"), "b1": cpu("100m")},
			spec: `{nodeSelector: {topology.kubernetes.io/zone: "1"}, topologySpreadConstraints: [{maxSkew: 1, minDomains: 2, whenUnsatisfiable: DoNotSchedule, ` + zone + `, ` + selector + `}], containers: [{name: c}]}`,
			want: "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod topology spread constraints. " +
				"preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."},
		"default spread": {pods: map[string]string{"a1": cpu("0"), "c1": cpu("0")}, want: "c",
			objects: []runtime.Object{parse[corev1.Service](t, `{metadata: {namespace: default, name: s}, spec: {selector: {app: web}}}`)}, spec: `{containers: [{name: c}]}`},
		"claim of a volume": {objects: []runtime.Object{claim("data", "", "v"), volume("v", "", "b")}, spec: using("data"), want: "b"},
		"claim that waits":  {objects: []runtime.Object{claim("data", "wait", ""), waiting, volume("v", "wait", "b")}, spec: using("data"), want: "b"},
		"claim that finds nothing": {objects: []runtime.Object{claim("data", "wait", ""), waiting}, spec: using("data"),
			want: "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind." + useless("3")},
		"claim of another pod": {pods: map[string]string{"a1": using("data")}, objects: []runtime.Object{claim("data", "", "v"), volume("v", "", "b")}, spec: using("data"),
			want: "0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod. " +
				"preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."},
		"claim that does not exist": {spec: using("data"), want: `0/3 nodes are available: persistentvolumeclaim "data" not found. not found`},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t, test.pods, test.objects...)
			d := s.Schedule(newTestPod(t, "p", "", test.spec))
			if got := d.Node + d.Message; got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestPreemption: the node and the victims, in the order of importance.
func TestPreemption(t *testing.T) {
	pod := func(priority, cpu string) string {
		return `{priority: ` + priority + `, containers: [{name: c, resources: {requests: {cpu: ` + cpu + `}}}]}`
	}
	full := func(a, b, c string) map[string]string { return map[string]string{"a1": a, "b1": b} }
	port := func(priority string) string { return onPort(`priority: ` + priority) }
	for name, test := range map[string]struct {
		pods   map[string]string
		budget bool
		spec   string
		node   string
		want   []string
	}{
		"the least important": {full(pod("5", "4"), pod("3", "4"), ""), false, pod("9", "4"), "b", []string{"b1"}},
		"as few as possible":  {map[string]string{"a1": pod("1", "2"), "a2": pod("1", "2"), "b1": pod("1", "4")}, false, pod("9", "3500m"), "b", []string{"b1"}},
		"only what is needed": {map[string]string{"a1": pod("1", "2"), "a2": pod("2", "2"), "b1": pod("9", "4")}, false, pod("9", "2"), "a", []string{"a1"}},
		"not the equal":       {full(pod("9", "4"), pod("9", "4"), ""), false, pod("9", "4"), "", nil},
		"with a budget":       {full(pod("1", "4"), pod("3", "4"), ""), true, pod("9", "4"), "b", []string{"b1"}},
		"of a shared port": {map[string]string{"a1": port("9"), "a2": port("1"), "a3": port("5"), "b1": port("9")}, false, port("9"), "a",
			[]string{"a3", "a2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t, test.pods)
			s.RemoveNode("c")
			if test.budget { // it protects the pod on a
				s.Objects.Set(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
					Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}})
				db := newTestPod(t, "a1", "a", test.pods["a1"])
				db.Labels["app"] = "db"
				s.SetPod(db)
			}
			d := s.Schedule(newTestPod(t, "p", "", test.spec))
			var victims []string
			for _, v := range d.Victims {
				victims = append(victims, v.Name)
			}
			if ptr.Deref(d.Nomination, "") != test.node || !slices.Equal(victims, test.want) {
				t.Errorf("nominated for %q, victims %v: %s", ptr.Deref(d.Nomination, ""), victims, d.Message)
			}
			if left := s.Explain(newTestPod(t, "p", "", test.spec)); len(left.Rejected) != 2 {
				t.Errorf("the snapshot has changed: %v", left.Rejected)
			}
		})
	}
}

// onPort returns the spec of a pod that uses the port 80 of the host, and of more fields.
func onPort(more string) string {
	return `{containers: [{name: c, ports: [{containerPort: 1, hostPort: 80}]}], ` + more + `}`
}

// TestSharedHostPort: a port that several pods use is free when one of them has left, until another is updated. Nominated pods and the
// search for victims change nothing.
func TestSharedHostPort(t *testing.T) {
	const large = `{priority: 9, containers: [{name: c, resources: {requests: {cpu: 3}}}]}`
	s := cluster(t, map[string]string{"a1": onPort(""), "a2": onPort(""), "a3": large})
	s.RemoveNode("b")
	s.RemoveNode("c")
	check := func(when, want string) {
		t.Helper()
		if d := s.Schedule(newTestPod(t, "p", "", onPort(""))); d.Node != want {
			t.Errorf("%s, the pod is on %q, want %q: %s", when, d.Node, want, d.Message)
		}
	}
	check("beside both", "")
	nominated := newTestPod(t, "nominated", "", onPort("priority: 5"))
	s.Nominate(nominated, "a")
	check("beside a nominated pod", "")
	s.Nominate(nominated, "")
	check("after a nominated pod", "")
	s.RemovePod("a2")
	check("after one has left", "a")
	if d := s.Schedule(newTestPod(t, "large", "", large)); d.Node != "" {
		t.Fatalf("a pod for which there is no room is on %s", d.Node)
	}
	check("after a search for victims", "a")
	s.SetPod(newTestPod(t, "a1", "a", onPort("")))
	check("after an update of the other", "")
}

// TestNominatedPods: a pod of a lower priority does not take the place that another waits for.
func TestNominatedPods(t *testing.T) {
	s := cluster(t, nil)
	s.RemoveNode("b")
	s.RemoveNode("c")
	spec := func(priority string) string {
		return `{priority: ` + priority + `, containers: [{name: c, resources: {requests: {cpu: 3}}}]}`
	}
	s.Nominate(newTestPod(t, "first", "", spec("5")), "a")
	if d := s.Schedule(newTestPod(t, "low", "", spec("1"))); d.Node != "" {
		t.Errorf("the pod takes the reserved place: %+v", d)
	}
	if d := s.Schedule(newTestPod(t, "high", "", spec("9"))); d.Node != "a" {
		t.Errorf("the pod of a higher priority waits: %+v", d)
	}
	s.Nominate(newTestPod(t, "first", "", spec("5")), "")
	if d := s.Schedule(newTestPod(t, "low", "", spec("1"))); d.Node != "a" {
		t.Errorf("the nomination remains: %+v", d)
	}
}
