package controlplane_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// cluster is a control plane with several nodes, in virtual time.
type cluster struct {
	*testing.T
	*controlplane.ControlPlane
	kubernetes.Interface
}

// withNodes runs a test with nodes, in virtual time.
func withNodes(t *testing.T, nodes []corev1.Node, test func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{Nodes: nodes})
		test(&cluster{t, plane, controlplanetest.ClientFor(t, plane.Config())})
	})
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// deploy creates the Deployment web, and waits until it is rolled out.
func (c *cluster) deploy(replicas int32, change func(*corev1.PodTemplateSpec)) {
	c.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web"}}}}}}
	change(&d.Spec.Template)
	_, err := c.AppsV1().Deployments("default").Create(c.Context(), d, metav1.CreateOptions{})
	c.must(err)
	time.Sleep(time.Minute) // virtual
	if ready := c.ready(); len(ready) != int(replicas) {
		c.Fatalf("of %d pods, %v are ready", replicas, ready)
	}
}

// pods returns the pods with a condition, by name.
func (c *cluster) pods(is func(*corev1.Pod) bool) map[string]*corev1.Pod {
	c.Helper()
	list, err := c.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	found := map[string]*corev1.Pod{}
	for i := range list.Items {
		if pod := &list.Items[i]; is(pod) {
			found[pod.Name] = pod
		}
	}
	return found
}

// ready returns the pods that are ready.
func (c *cluster) ready() map[string]*corev1.Pod {
	return c.pods(func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(p corev1.PodCondition) bool {
			return p.Type == corev1.PodReady && p.Status == corev1.ConditionTrue
		})
	})
}

// terminating returns the pods that are being deleted.
func (c *cluster) terminating() map[string]*corev1.Pod {
	return c.pods(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// perNode returns the number of pods on each node.
func perNode(pods map[string]*corev1.Pod) map[string]int {
	nodes := map[string]int{}
	for _, pod := range pods {
		nodes[pod.Spec.NodeName]++
	}
	return nodes
}

// TestLostNodeOfADeployment: the pod of a node that is lost is placed on another node after its tolerationSeconds, and goes
// when the node comes back.
func TestLostNodeOfADeployment(t *testing.T) {
	for _, tolerated := range []time.Duration{time.Minute, 5 * time.Minute} { // the latter by default
		t.Run(tolerated.String(), func(t *testing.T) {
			withNodes(t, pods.Nodes(2), func(c *cluster) {
				c.deploy(1, func(template *corev1.PodTemplateSpec) {
					if tolerated != 5*time.Minute {
						template.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
							Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(tolerated / time.Second))}}
					}
				})
				before := c.ready()
				lost := slices.Collect(maps.Keys(perNode(before)))[0]
				c.must(c.Nodes().Stop(lost))
				time.Sleep(39*time.Second + tolerated) // virtual; it takes 40 to 60 seconds to notice
				if n := len(c.terminating()); n != 0 {
					c.Errorf("%d pods are evicted too early", n)
				}
				if n := len(c.ready()); n != 0 {
					c.Errorf("%d pods are ready on a node that is lost", n)
				}
				time.Sleep(25 * time.Second)
				after := c.ready()
				if len(after) != 1 || perNode(after)[lost] != 0 {
					c.Errorf("ready are %v, and %s is lost", perNode(after), lost)
				}
				if got := c.terminating(); perNode(got)[lost] != 1 {
					c.Errorf("terminating are %v", got)
				}
				c.must(c.Nodes().Start(lost))
				time.Sleep(10 * time.Second)
				if got := c.terminating(); len(got) != 0 {
					c.Errorf("terminating are %v after the return of %s", got, lost)
				}
				if got := c.ready(); !slices.Equal(slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(after))) {
					c.Errorf("ready are %v after the return of %s", got, lost)
				}
			})
		})
	}
}

// TestDrain: a drain evicts the pods of a node again and again, until the PodDisruptionBudget permits it.
func TestDrain(t *testing.T) {
	withNodes(t, pods.Nodes(3), func(c *cluster) {
		c.deploy(6, func(template *corev1.PodTemplateSpec) {
			template.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{runs: [{steps: [{after: 12s, ready: true}]}]}]"}
			template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
				WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor)}}
		})
		if got := perNode(c.ready()); got["flyball"] != 2 || got["flyball-2"] != 2 || got["flyball-3"] != 2 {
			c.Fatalf("at first, the pods are on %v", got)
		}
		_, err := c.PolicyV1().PodDisruptionBudgets("default").Create(c.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, metav1.CreateOptions{})
		c.must(err)
		time.Sleep(time.Second) // virtual
		c.cordon("flyball-2", true)
		if refused := c.evictAll("flyball-2"); refused == 0 {
			c.Error("no eviction was refused")
		}
		time.Sleep(time.Minute)
		if got := perNode(c.ready()); got["flyball"] != 3 || got["flyball-3"] != 3 {
			c.Errorf("after the drain, the pods are on %v", got)
		}
		c.cordon("flyball-2", false)
		time.Sleep(time.Second) // until the taint is gone
		_, err = c.AppsV1().Deployments("default").Patch(c.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{})
		c.must(err)
		time.Sleep(time.Minute)
		if got := perNode(c.ready()); got["flyball-2"] != 1 {
			c.Errorf("after the node is schedulable again, the pods are on %v", got)
		}
	})
}

// cordon makes a node unschedulable, or schedulable again, and waits until the scheduler knows.
func (c *cluster) cordon(node string, unschedulable bool) {
	c.Helper()
	_, err := c.CoreV1().Nodes().Patch(c.Context(), node, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable), metav1.PatchOptions{})
	c.must(err)
	time.Sleep(time.Second) // virtual
}

// evictAll evicts the pods of a node as kubectl drain does, and returns how often an eviction was refused. The test fails if
// fewer than five pods are ready at any time.
func (c *cluster) evictAll(node string) (refused int) {
	c.Helper()
	for name := range c.pods(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node }) {
		for {
			err := c.PolicyV1().Evictions("default").Evict(c.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
			if n := len(c.ready()); n < 5 {
				c.Errorf("only %d pods are ready", n)
			}
			if err == nil {
				break
			}
			if !apierrors.IsTooManyRequests(err) {
				c.Fatal(err)
			}
			refused++
			time.Sleep(5 * time.Second) // virtual
		}
	}
	return refused
}

// TestDeletedNode: the pods of a node that is deleted stay if the node is there again soon, with another UID, and go otherwise. Either way
// the node serves pods when it is there again.
func TestDeletedNode(t *testing.T) {
	for _, away := range []time.Duration{0, 10 * time.Second, 5 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			withNodes(t, pods.Nodes(2), func(c *cluster) {
				c.deploy(4, func(template *corev1.PodTemplateSpec) {
					template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
						WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
				})
				const name = "flyball-2"
				before := slices.Sorted(maps.Keys(c.ready()))
				was, err := c.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
				c.must(err)
				c.must(c.CoreV1().Nodes().Delete(c.Context(), name, metav1.DeleteOptions{}))
				time.Sleep(away) // virtual
				if got := perNode(c.ready()); away > time.Minute && got["flyball"] != 4 {
					c.Errorf("without %s, the pods are on %v", name, got)
				}
				_, err = c.CoreV1().Nodes().Create(c.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				c.must(err)
				time.Sleep(5 * time.Minute)
				if after := slices.Sorted(maps.Keys(c.ready())); away < time.Minute && !slices.Equal(before, after) {
					c.Errorf("the pods are %v, and were %v", after, before)
				}
				c.checkNode(name, was)
				_, err = c.AppsV1().Deployments("default").Patch(c.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":8}}`), metav1.PatchOptions{})
				c.must(err)
				time.Sleep(time.Minute)
				if got := perNode(c.ready()); got["flyball"] != 4 || got[name] != 4 {
					c.Errorf("with %s again, the pods are on %v", name, got)
				}
			})
		})
	}
}

// checkNode checks that a node that was deleted is ready again, with the lease and the CIDR of another node.
func (c *cluster) checkNode(name string, was *corev1.Node) {
	c.Helper()
	node, err := c.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
	c.must(err)
	if node.UID == was.UID || len(node.Spec.Taints) > 0 || node.Spec.PodCIDR == "" || node.Spec.PodCIDR == was.Spec.PodCIDR {
		c.Errorf("the node %s is %+v, and was %+v", node.UID, node.Spec, was.Spec)
	}
	lease, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(c.Context(), name, metav1.GetOptions{})
	c.must(err)
	if behind := time.Since(lease.Spec.RenewTime.Time); behind > 10*time.Second || lease.OwnerReferences[0].UID != node.UID {
		c.Errorf("the lease of %v was renewed %v ago", lease.OwnerReferences, behind)
	}
}

// inZones returns two nodes in each of the zones a and b.
func inZones() []corev1.Node {
	nodes := pods.Nodes(4)
	for i := range nodes {
		nodes[i].Labels = map[string]string{corev1.LabelTopologyZone: []string{"a", "a", "b", "b"}[i]}
	}
	return nodes
}

// TestLostZone: a zone of two nodes is lost for two minutes, which its pods tolerate, and for seven, after which its pods are in the
// other zone. New pods are in the zone when it is back.
func TestLostZone(t *testing.T) {
	withNodes(t, inZones(), func(c *cluster) {
		c.deploy(4, func(template *corev1.PodTemplateSpec) {
			template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone,
				WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor)}}
		})
		zone := []string{"flyball-3", "flyball-4"}
		of := func(pods map[string]*corev1.Pod) string {
			nodes := perNode(pods)
			return fmt.Sprintf("%d in a, %d in b", nodes["flyball"]+nodes["flyball-2"], nodes[zone[0]]+nodes[zone[1]])
		}
		check := func(when, ready, terminating string) {
			c.Helper()
			if got := of(c.ready()); got != ready {
				c.Errorf("%s: ready are %s; want %s", when, got, ready)
			}
			if got := of(c.terminating()); got != terminating {
				c.Errorf("%s: terminating are %s; want %s", when, got, terminating)
			}
		}
		outage := func(change func(string) error, d time.Duration) {
			c.Helper()
			for _, node := range zone {
				c.must(change(node))
			}
			time.Sleep(d) // virtual
		}
		const none = "0 in a, 0 in b"
		check("at first", "2 in a, 2 in b", none)
		before := slices.Sorted(maps.Keys(c.ready()))
		outage(c.Nodes().Stop, 2*time.Minute)
		check("after two minutes", "2 in a, 0 in b", none)
		outage(c.Nodes().Start, 20*time.Second)
		check("after a short outage", "2 in a, 2 in b", none)
		if after := slices.Sorted(maps.Keys(c.ready())); !slices.Equal(before, after) {
			c.Errorf("after a short outage, the pods are %v; before, they were %v", after, before)
		}
		outage(c.Nodes().Stop, 7*time.Minute)
		check("after seven minutes", "4 in a, 0 in b", "0 in a, 2 in b")
		outage(c.Nodes().Start, 20*time.Second)
		check("after a long outage", "4 in a, 0 in b", none)
		_, err := c.AppsV1().Deployments("default").Patch(c.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":6}}`), metav1.PatchOptions{})
		c.must(err)
		time.Sleep(time.Minute)
		check("after an increase", "4 in a, 2 in b", none)
	})
}

// TestNodesOfOptions: a control plane has the nodes of the options, and its forks serve them too.
func TestNodesOfOptions(t *testing.T) {
	names := func(plane *controlplane.ControlPlane) string {
		list := controlplanetest.Must[*corev1.NodeList](t)(controlplanetest.ClientFor(t, plane.Config()).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))
		var names []string
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		return strings.Join(names, " ")
	}
	given := controllers.Options{Pods: pods.Options{Nodes: pods.Nodes(2)}}
	for _, tc := range []struct {
		o    controlplane.Options
		want string
	}{
		{controlplane.Options{}, "flyball"},
		{controlplane.Options{Nodes: pods.Nodes(3)}, "flyball flyball-2 flyball-3"},
		{controlplane.Options{Nodes: []corev1.Node{}}, ""},
		{controlplane.Options{Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}}, Controllers: given}, "worker"},
		{controlplane.Options{Controllers: given}, "flyball flyball-2"},
	} {
		plane := controlplanetest.Start(t, tc.o)
		if got := names(plane); got != tc.want {
			t.Errorf("the nodes are %q, want %q", got, tc.want)
		}
		if tc.want != "worker" {
			continue
		}
		fork, err := plane.Fork(t.Context(), controlplane.ForkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(fork.StartControllers(), fork.Nodes().Stop("worker"), fork.Stop()); err != nil {
			t.Errorf("a node of a fork is stopped: %v", err)
		}
	}
	twice := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	if _, err := controlplane.Start(t.Context(), controlplane.Options{Nodes: twice}); err == nil || !strings.Contains(err.Error(), `two nodes have the name "a"`) {
		t.Errorf("with a node twice: %v", err)
	}
}

// TestStopOfNodes: kubelets of this control plane can be stopped and started, any number of times, and no others.
func TestStopOfNodes(t *testing.T) {
	withNodes(t, nil, func(c *cluster) {
		foreign := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
		own := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own", Annotations: map[string]string{pods.KubeletAnnotation: pods.KubeletRunning}}}
		for _, n := range []*corev1.Node{foreign, own} {
			_, err := c.CoreV1().Nodes().Create(c.Context(), n, metav1.CreateOptions{})
			c.must(err)
		}
		for _, name := range []string{"flyball", "own"} {
			for _, change := range []func(string) error{c.Nodes().Start, c.Nodes().Stop, c.Nodes().Stop, c.Nodes().Start} {
				c.must(change(name))
			}
		}
		for _, change := range []func(string) error{c.Nodes().Start, c.Nodes().Stop} {
			if err := change("none"); !apierrors.IsNotFound(err) {
				c.Errorf("a node that does not exist: %v", err)
			}
			const want = `Operation cannot be fulfilled on nodes "foreign": the kubelet of node "foreign" does not belong to this control plane`
			if err := change("foreign"); !apierrors.IsConflict(err) || err.Error() != want {
				c.Errorf("a node of another kubelet: %v", err)
			}
		}
		createRunning(c.T, c, sleeper("web"))
		node, err := c.CoreV1().Pods("default").Get(c.Context(), "web", metav1.GetOptions{})
		c.must(err)
		c.must(c.Nodes().Stop(node.Spec.NodeName))
		if log := logsOf(c.T, c, "web", corev1.PodLogOptions{}); !strings.Contains(log, "is stopped, or does not belong to this control plane") {
			c.Errorf("the log of a pod on a node that is lost: %s", log)
		}
		c.must(c.Nodes().Start(node.Spec.NodeName))
		synctest.Wait()
		if log := logsOf(c.T, c, "web", corev1.PodLogOptions{}); log != "started\n" {
			c.Errorf("the log of a pod on a node that is back: %s", log)
		}
	})
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	controlplanetest.Must[*corev1.Node](t)(controlplanetest.ClientFor(t, plane.Config()).CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "flyball"}}, metav1.CreateOptions{}))
	if err := plane.Nodes().Stop("flyball"); !apierrors.IsConflict(err) {
		t.Errorf("without controllers: %v", err)
	}
}
