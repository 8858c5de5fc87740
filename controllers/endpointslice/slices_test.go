package endpointslice

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers/internal/endpoints/fixture"
)

func service(change func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "svc", CreationTimestamp: metav1.NewTime(fixture.Created),
			Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.9", Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web")}},
		},
	}
	if change != nil {
		change(svc)
	}
	return svc
}

// describe returns a slice as "IPv4 http:8080 10.1.0.1+...", where "+" means ready, "-" not ready and
// "~" fixture.Terminating, but serving.
func describe(s *discoveryv1.EndpointSlice) string {
	words := []string{string(s.AddressType)}
	for _, p := range s.Ports {
		words = append(words, fmt.Sprintf("%s:%d", *p.Name, *p.Port))
	}
	for _, e := range s.Endpoints {
		state := "-"
		switch {
		case *e.Conditions.Ready:
			state = "+"
		case *e.Conditions.Terminating && *e.Conditions.Serving:
			state = "~"
		}
		if e.Hostname != nil {
			state += *e.Hostname
		}
		words = append(words, e.Addresses[0]+state)
	}
	return strings.Join(words, " ")
}

func TestSlicesOfAService(t *testing.T) {
	zones := map[string]string{"node": "z1"}
	for _, tc := range []struct {
		name string
		svc  func(*corev1.Service)
		pods []*corev1.Pod
		want []string
	}{
		{"no pods", nil, nil, []string{"IPv4"}},
		{"readiness", nil, []*corev1.Pod{fixture.Pod(1, nil), fixture.Pod(2, fixture.NotReady), fixture.Pod(3, fixture.Terminating)},
			[]string{"IPv4 http:8080 10.1.0.1+ 10.1.0.2- 10.1.0.3~"}},
		{"addresses that are not ready are published", func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
			[]*corev1.Pod{fixture.Pod(1, fixture.NotReady), fixture.Pod(2, fixture.Terminating)}, []string{"IPv4 http:8080 10.1.0.1+ 10.1.0.2+"}},
		{"terminated, without an address, on an unknown node", nil, []*corev1.Pod{
			fixture.Pod(1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			fixture.Pod(2, func(p *corev1.Pod) { p.Status.PodIPs = nil }),
			fixture.Pod(3, func(p *corev1.Pod) { p.Spec.NodeName = "elsewhere" }),
		}, []string{"IPv4"}},
		{"an unknown node, published", func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
			[]*corev1.Pod{fixture.Pod(1, func(p *corev1.Pod) { p.Spec.NodeName = "elsewhere" })}, []string{"IPv4 http:8080 10.1.0.1+"}},
		{"the same name is another port in another pod", nil, []*corev1.Pod{
			fixture.Pod(1, nil), fixture.Pod(2, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9090 }),
		}, []string{"IPv4 http:8080 10.1.0.1+", "IPv4 http:9090 10.1.0.2+"}},
		{"a name of another protocol, and a number", func(s *corev1.Service) {
			s.Spec.Ports[0].Protocol = corev1.ProtocolUDP
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "n", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(7)})
		}, []*corev1.Pod{fixture.Pod(1, nil)}, []string{"IPv4 n:7 10.1.0.1+"}},
		{"a sidecar's port", nil, []*corev1.Pod{fixture.Pod(1, func(p *corev1.Pod) {
			p.Spec.InitContainers = p.Spec.Containers
			p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			p.Spec.Containers = nil
		})}, []string{"IPv4 http:8080 10.1.0.1+"}},
		{"headless, without ports, with host names", func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil
		}, []*corev1.Pod{fixture.Pod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "web" }),
			fixture.Pod(2, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "other" })},
			[]string{"IPv4 10.1.0.1+h 10.1.0.2+"}},
		{"two address families", func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}, []*corev1.Pod{fixture.Pod(1, nil), fixture.Pod(2, func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[:1] })},
			[]string{"IPv6 http:8080 fd00::1+", "IPv4 http:8080 10.1.0.1+ 10.1.0.2+"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			svc := service(tc.svc)
			changes := slicesOf(svc, tc.pods, zones, nil).Plan(nil)
			var got []string
			for _, s := range changes.Create {
				got = append(got, describe(s))
				for _, e := range s.Endpoints {
					if known := *e.NodeName == "node"; e.TargetRef.Kind != "Pod" || known != (e.Zone != nil && *e.Zone == "z1") {
						t.Errorf("endpoint %+v", e)
					}
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("slices (-want +got):\n%s", d)
			}
			if again := slicesOf(svc, tc.pods, zones, changes.Create).Plan(changes.Create); len(again.Create)+len(again.Update)+len(again.Delete) > 0 {
				t.Errorf("a second plan changes %+v", again)
			}
		})
	}
}

// TestPlaceholderOfAnEarlierService: the empty slice of a deleted Service of the same name is replaced. The garbage collector
// deletes it, or, if the Service orphaned it, nobody would delete it after the Service.
func TestPlaceholderOfAnEarlierService(t *testing.T) {
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"of another UID": func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "earlier" },
		"orphaned":       func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil },
	} {
		placeholder := slicesOf(service(nil), nil, nil, nil).Plan(nil).Create
		change(placeholder[0])
		c := slicesOf(service(nil), nil, nil, placeholder).Plan(placeholder)
		if len(c.Create) != 1 || len(c.Update) != 0 || len(c.Delete) != 1 || c.Create[0].OwnerReferences[0].UID != "svc" {
			t.Errorf("%s: created %v, updated %v, deleted %v", name, c.Create, c.Update, c.Delete)
		}
	}
}

// TestPlaceholderBesideAnEarlierOne: while the slice of an earlier Service cannot be deleted, the empty slice stays as it is.
func TestPlaceholderBesideAnEarlierOne(t *testing.T) {
	svc := service(nil)
	existing := append(slicesOf(svc, nil, nil, nil).Plan(nil).Create, slicesOf(svc, nil, nil, nil).Plan(nil).Create...)
	existing[1].OwnerReferences[0].UID = "earlier"
	c := slicesOf(svc, nil, nil, existing).Plan(existing)
	if len(c.Create)+len(c.Update) != 0 || len(c.Delete) != 1 || c.Delete[0] != existing[1] {
		t.Errorf("created %v, updated %v, deleted %v", c.Create, c.Update, c.Delete)
	}
}

func TestMetadataOfASlice(t *testing.T) {
	svc := service(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	got := slicesOf(svc, []*corev1.Pod{fixture.Pod(1, nil)}, map[string]string{"node": ""}, nil).Plan(nil).Create[0].ObjectMeta
	want := metav1.ObjectMeta{
		Namespace: "default", GenerateName: "web-",
		Labels: map[string]string{"team": "a", corev1.IsHeadlessService: "", discoveryv1.LabelServiceName: "web",
			discoveryv1.LabelManagedBy: managedBy},
		Annotations:     map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-02T03:04:05Z"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
}

// TestChangesOfSlices changes the pods of a Service that has more endpoints than fit into a slice.
func TestChangesOfSlices(t *testing.T) {
	zones := map[string]string{"node": ""}
	svc := service(nil)
	var pods []*corev1.Pod
	for n := range 150 {
		pods = append(pods, fixture.Pod(n, nil))
	}
	existing := slicesOf(svc, pods, zones, nil).Plan(nil).Create
	if len(existing) != 2 || len(existing[0].Endpoints) != 100 || len(existing[1].Endpoints) != 50 {
		t.Fatalf("there are %d slices", len(existing))
	}
	for _, tc := range []struct {
		name                    string
		pods                    []*corev1.Pod
		sizes                   []int // of the updated slices
		created, updated, erase int
		trigger                 string
	}{
		{"a pod is not ready", append(slices.Clone(pods[1:]), fixture.Pod(0, func(p *corev1.Pod) {
			fixture.NotReady(p)
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(fixture.Created.Add(time.Hour))
		})), []int{100}, 0, 1, 0, "2026-01-02T04:04:05Z"},
		{"a pod replaces another", append(slices.Clone(pods[1:]), fixture.Pod(200, nil)), []int{100}, 0, 1, 0, "2026-01-02T03:07:25Z"},
		{"a pod is new", append(slices.Clone(pods), fixture.Pod(200, nil)), []int{51}, 0, 1, 0, "2026-01-02T03:07:25Z"},
		{"pods are deleted", pods[:100], nil, 0, 0, 1, ""},
		{"all pods are deleted", nil, []int{0}, 0, 1, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, s := range existing { // as if all changes so far had been noticed
				s.Annotations[corev1.EndpointsLastChangeTriggerTime] = fixture.Created.Add(150 * time.Second).Format(time.RFC3339Nano)
			}
			c := slicesOf(svc, tc.pods, zones, existing).Plan(existing)
			if len(c.Create) != tc.created || len(c.Update) != tc.updated || len(c.Delete) != tc.erase {
				t.Fatalf("%d created, %d updated, %d deleted", len(c.Create), len(c.Update), len(c.Delete))
			}
			for i, s := range c.Update {
				if len(s.Endpoints) != tc.sizes[i] || s.Annotations[corev1.EndpointsLastChangeTriggerTime] != tc.trigger {
					t.Errorf("%d endpoints, annotations %v", len(s.Endpoints), s.Annotations)
				}
			}
		})
	}
}
