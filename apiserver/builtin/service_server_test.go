package builtin_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// TestAllocationsAreUnique has many concurrent writers of a few services and a few node ports, and
// then checks that no two services have the same address or port.
func TestAllocationsAreUnique(t *testing.T) {
	ctx, client := serve(t)
	var wg sync.WaitGroup
	for seed := range 6 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			for range 60 {
				mutate(t, ctx, client, random)
			}
		})
	}
	wg.Wait()
	checkUnique(t, ctx, client)
}

// mutate creates, updates or deletes one service, and accepts every error that the other writers
// can cause.
func mutate(t *testing.T, ctx context.Context, client kubernetes.Interface, random *rand.Rand) {
	services := client.CoreV1().Services("default")
	name := fmt.Sprintf("s%d", random.IntN(8))
	spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	if random.IntN(2) == 0 {
		spec.Type = corev1.ServiceTypeNodePort
		spec.Ports[0].NodePort = []int32{0, 30001, 30002, 30003}[random.IntN(4)]
	}
	var err error
	switch random.IntN(5) {
	case 0, 1:
		_, err = services.Create(ctx, service(name, spec), metav1.CreateOptions{})
	case 2, 3:
		var s *corev1.Service
		if s, err = services.Get(ctx, name, metav1.GetOptions{}); err != nil {
			break
		}
		s.Spec.Type, s.Spec.Ports, s.Spec.ExternalTrafficPolicy = spec.Type, spec.Ports, ""
		if random.IntN(2) == 0 {
			s.ResourceVersion = "" // whatever it is now
		}
		_, err = services.Update(ctx, s, metav1.UpdateOptions{})
	default:
		err = services.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		t.Errorf("%s: %v", name, err)
	}
}

// checkUnique checks that no two services have the same cluster IP or node port.
func checkUnique(t *testing.T, ctx context.Context, client kubernetes.Interface) {
	t.Helper()
	has := map[any]string{}
	claim := func(what any, name string) {
		if other, taken := has[what]; taken {
			t.Errorf("%s and %s both have %v", name, other, what)
		}
		has[what] = name
	}
	list := must[*corev1.ServiceList](t)(client.CoreV1().Services("").List(ctx, metav1.ListOptions{}))
	for _, s := range list.Items {
		claim(s.Spec.ClusterIP, s.Name)
		for _, p := range s.Spec.Ports {
			if p.NodePort != 0 {
				claim(p.NodePort, s.Name)
			}
		}
	}
}

func TestAllocationsAfterRestart(t *testing.T) {
	kept := memory.New(memory.Options{})
	defer kept.Close()
	run := func(f func(kubernetes.Interface)) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{Storage: storagetest.Kept{Store: kept}, WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		client, err := kubernetes.NewForConfig(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		f(client)
	}
	var ip string
	run(func(client kubernetes.Interface) {
		ip = must[*corev1.Service](t)(client.CoreV1().Services("default").Create(t.Context(), service("first", corev1.ServiceSpec{}), metav1.CreateOptions{})).Spec.ClusterIP
	})
	run(func(client kubernetes.Interface) {
		_, err := client.CoreV1().Services("default").Create(t.Context(), service("second", corev1.ServiceSpec{ClusterIP: ip}), metav1.CreateOptions{})
		wantError(t, err, metav1.StatusReasonInvalid, "provided IP is already allocated")
		must[*corev1.Service](t)(client.CoreV1().Services("default").Create(t.Context(), service("third", corev1.ServiceSpec{}), metav1.CreateOptions{}))
	})
}

func service(name string, spec corev1.ServiceSpec) *corev1.Service {
	if spec.Ports == nil {
		spec.Ports = []corev1.ServicePort{{Port: 80}}
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
}

func TestServiceAllocation(t *testing.T) {
	ctx, client := serve(t)
	services := client.CoreV1().Services("default")
	create := func(s *corev1.Service) *corev1.Service {
		t.Helper()
		return must[*corev1.Service](t)(services.Create(ctx, s, metav1.CreateOptions{}))
	}
	s := create(service("web", corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}))
	ip := s.Spec.ClusterIP
	if !strings.HasPrefix(ip, "10.") || len(s.Spec.ClusterIPs) != 1 || s.Spec.ClusterIPs[0] != ip || *s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || len(s.Spec.IPFamilies) != 1 {
		t.Errorf("created: %+v", s.Spec)
	}

	s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.Type = "", nil, corev1.ServiceTypeNodePort
	s = must[*corev1.Service](t)(services.Update(ctx, s, metav1.UpdateOptions{}))
	number := s.Spec.Ports[0].NodePort
	if s.Spec.ClusterIP != ip || number < 30000 || number > 32767 || s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster {
		t.Errorf("as a NodePort: %+v", s.Spec)
	}
	s.Spec.Ports[0].NodePort = 0
	if s = must[*corev1.Service](t)(services.Update(ctx, s, metav1.UpdateOptions{})); s.Spec.Ports[0].NodePort != number {
		t.Errorf("the node port went from %d to %d", number, s.Spec.Ports[0].NodePort)
	}

	_, err := services.Create(ctx, service("conflicting", corev1.ServiceSpec{ClusterIP: ip}), metav1.CreateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "spec.clusterIPs: Invalid value", "failed to allocate IP "+ip+": provided IP is already allocated")
	_, err = services.Create(ctx, service("outside", corev1.ServiceSpec{ClusterIP: "192.168.0.1"}), metav1.CreateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "failed to allocate IP 192.168.0.1: the provided network does not match the current range")
	taken := service("port", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: number}}})
	_, err = services.Create(ctx, taken, metav1.CreateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "spec.ports[0].nodePort: Invalid value", "provided port is already allocated")

	s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
	if s = must[*corev1.Service](t)(services.Update(ctx, s, metav1.UpdateOptions{})); s.Spec.ExternalTrafficPolicy != "" {
		t.Errorf("back as a ClusterIP: %+v", s.Spec)
	}
	create(taken) // the port is free again

	if err := services.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create(service("reusing", corev1.ServiceSpec{ClusterIP: ip}))
}

func TestServiceTypes(t *testing.T) {
	ctx, client := serve(t)
	services := client.CoreV1().Services("default")
	headless := must[*corev1.Service](t)(services.Create(ctx, service("headless", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"a": "b"}}), metav1.CreateOptions{}))
	if len(headless.Spec.ClusterIPs) != 1 || headless.Spec.ClusterIPs[0] != corev1.ClusterIPNone || len(headless.Spec.IPFamilies) != 1 {
		t.Errorf("headless: %+v", headless.Spec)
	}
	selectorless := must[*corev1.Service](t)(services.Create(ctx, service("selectorless", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}), metav1.CreateOptions{}))
	if *selectorless.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack || len(selectorless.Spec.IPFamilies) != 2 {
		t.Errorf("headless without a selector: %+v", selectorless.Spec)
	}
	named := must[*corev1.Service](t)(services.Create(ctx, service("named", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}), metav1.CreateOptions{}))
	if named.Spec.ClusterIP != "" || named.Spec.IPFamilies != nil {
		t.Errorf("external name: %+v", named.Spec)
	}
	both := corev1.IPFamilyPolicyRequireDualStack
	_, err := services.Create(ctx, service("both", corev1.ServiceSpec{IPFamilyPolicy: &both}), metav1.CreateOptions{})
	wantError(t, err, metav1.StatusReasonInvalid, "this cluster is not configured for dual-stack services")
	balanced := must[*corev1.Service](t)(services.Create(ctx, service("balanced", corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal}), metav1.CreateOptions{}))
	if balanced.Spec.HealthCheckNodePort == 0 || balanced.Spec.Ports[0].NodePort == 0 {
		t.Errorf("load balancer: %+v", balanced.Spec)
	}
}

func TestDryRunAllocatesNothing(t *testing.T) {
	ctx, client := serve(t)
	services := client.CoreV1().Services("default")
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	s := must[*corev1.Service](t)(services.Create(ctx, service("web", corev1.ServiceSpec{ClusterIP: "10.96.0.77"}), dry))
	if s.Spec.ClusterIP != "10.96.0.77" {
		t.Errorf("dry run: %+v", s.Spec)
	}
	must[*corev1.Service](t)(services.Create(ctx, service("web", corev1.ServiceSpec{ClusterIP: "10.96.0.77"}), metav1.CreateOptions{}))
}
