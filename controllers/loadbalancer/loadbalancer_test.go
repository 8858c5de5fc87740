package loadbalancer_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/loadbalancer"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// service returns a Service of the type LoadBalancer.
func service(name string, change ...func(s *corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, c := range change {
		c(s)
	}
	return s
}

// state returns the finalizer and the addresses of a Service.
func state(e controllerstest.Env, name string) string {
	e.Helper()
	s := &corev1.Service{}
	e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, s))
	list := append([]string(nil), s.Finalizers...)
	for _, in := range s.Status.LoadBalancer.Ingress {
		list = append(list, fmt.Sprintf("%s %s", in.IP, ptr.Deref(in.IPMode, "")))
	}
	return strings.Join(list, ", ")
}

const finalizer = loadbalancer.Finalizer

// TestServices gives addresses to Services, and takes them away.
func TestServices(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(service("plain"), service("other"),
			service("class", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/lb") }),
			service("cluster", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
			service("asks", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.7" }),
			service("ranges", func(s *corev1.Service) {
				s.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "10.0.0.0/8, 192.168.0.0/16"}
			}))
		e.WaitIdle()
		e.CreateAll(service("taken", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.7" }))
		e.WaitIdle()
		addresses := map[string]bool{}
		for _, name := range []string{"plain", "other", "ranges"} {
			ip, ok := strings.CutPrefix(strings.TrimSuffix(state(e, name), " VIP"), finalizer+", ")
			if address, err := netip.ParseAddr(ip); !ok || err != nil || !loadbalancer.Network.Contains(address) || addresses[ip] {
				t.Errorf("%s has %s", name, state(e, name))
			}
			addresses[ip] = true
		}
		for name, want := range map[string]string{"class": "", "cluster": "", "taken": "", "asks": finalizer + ", 192.0.2.7 VIP"} {
			if got := state(e, name); got != want {
				t.Errorf("%s has %q, want %q", name, got, want)
			}
		}
		for name, want := range map[string]string{"plain": ": Ensured load balancer",
			"taken": ": Error syncing load balancer: failed to ensure load balancer: the address 192.0.2.7 is used by service default/asks"} {
			if got := e.Events("Service", name); !strings.HasSuffix(strings.Join(got, "; "), want) {
				t.Errorf("the events of %s are %q", name, got)
			}
		}

		s := service("asks")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(s), s))
		s.Spec.Type, s.Spec.LoadBalancerIP = corev1.ServiceTypeClusterIP, ""
		e.Must(e.Update(e.Context(), s))
		e.WaitIdle()
		if got := state(e, "asks"); got != "" {
			t.Errorf("a Service that is no load balancer any longer has %q", got)
		}
		e.Must(e.Delete(e.Context(), service("plain")))
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "plain"}, s); !apierrors.IsNotFound(err) {
			t.Errorf("a deleted Service stays: %v", err)
		}
		if got := state(e, "taken"); got != finalizer+", 192.0.2.7 VIP" {
			t.Errorf("the Service that waited for the address has %q", got)
		}
	})
}

// asking returns a Service that asks for an address.
func asking(name, address string) *corev1.Service {
	return service(name, func(s *corev1.Service) { s.Spec.LoadBalancerIP = address })
}

// TestWaiting: a Service that waits for an address gets it, however the Service with the address gives it up.
func TestWaiting(t *testing.T) {
	const address = "192.0.2.7"
	for name, giveUp := range map[string]func(e controllerstest.Env, s *corev1.Service){
		"deleted": func(e controllerstest.Env, s *corev1.Service) { e.Must(e.Delete(e.Context(), s)) },
		"asks for another": func(e controllerstest.Env, s *corev1.Service) {
			s.Spec.LoadBalancerIP = "192.0.2.8"
			e.Must(e.Update(e.Context(), s))
		},
		"kept by another finalizer": func(e controllerstest.Env, s *corev1.Service) {
			s.Finalizers = append(s.Finalizers, "example.com/keep")
			e.Must(e.Update(e.Context(), s))
			e.Must(e.Delete(e.Context(), s))
		},
		"of another class": func(e controllerstest.Env, s *corev1.Service) {
			for _, patch := range []string{`{"spec":{"type":"ClusterIP"}}`, `{"spec":{"type":"LoadBalancer","loadBalancerClass":"example.com/lb"}}`} {
				e.Must(e.Patch(e.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch))))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
				e.CreateAll(asking("first", address))
				e.WaitIdle()
				e.CreateAll(asking("second", address), asking("gone", address))
				e.WaitIdle()
				e.Must(e.Delete(e.Context(), service("gone")))
				e.WaitIdle()
				if got := state(e, "second"); got != "" {
					t.Fatalf("the second Service has %q", got)
				}
				s := service("first")
				e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(s), s))
				giveUp(e, s)
				e.WaitIdle()
				if got := state(e, "second"); got != finalizer+", "+address+" VIP" {
					t.Errorf("the second Service has %q", got)
				}
			})
		})
	}
}

// TestFaults creates and deletes Services while writes of the controller fail and the controller restarts. Some Services ask for the
// same address. In the end each Service has an address of its own.
func TestFaults(t *testing.T) {
	controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
		step, created := 0, 0
		e.RunWithFaults("service-lb-controller", 1, func() {
			if step++; step%10 != 0 || step > 200 {
				return
			}
			name := func(i int) string { return fmt.Sprintf("s%d", i) }
			e.CreateAll(service("plain-"+name(created)), asking(name(created), "192.0.2.7"))
			if created++; created > 1 {
				e.Must(e.Delete(e.Context(), service(name(created-2))))
			}
		}, func() bool { return step > 300 })
		all, owners := &corev1.ServiceList{}, map[string]string{}
		e.Must(e.List(e.Context(), all, client.InNamespace("default")))
		for _, s := range all.Items {
			if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}
			address, ok := strings.CutPrefix(state(e, s.Name), finalizer+", ")
			if !ok || owners[address] != "" {
				t.Errorf("%s has %q, as %q", s.Name, state(e, s.Name), owners[address])
			}
			owners[address] = s.Name
		}
		if len(owners) != created+1 {
			t.Errorf("%d of %d Services are left: %v", len(owners), created+1, owners)
		}
	})
}

// TestAddressesStay: Services keep their addresses when the controller starts again, and new ones get others.
func TestAddressesStay(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Without: []string{"service-lb-controller"}}, func(e controllerstest.Env) {
		stop := e.StartController("service-lb-controller", controllers.Options{})
		e.CreateAll(service("a"), service("b"))
		e.WaitIdle()
		a, b := state(e, "a"), state(e, "b")
		stop()
		e.CreateAll(service("c"))
		defer e.StartController("service-lb-controller", controllers.Options{})()
		e.WaitIdle()
		if c := state(e, "c"); state(e, "a") != a || state(e, "b") != b || c == a || c == b || c == "" {
			t.Errorf("a %s, b %s, c %s; before a %s, b %s", state(e, "a"), state(e, "b"), c, a, b)
		}
	})
}

// TestIngresses gives an address to the Ingresses without a class, or with a class of the controller.
func TestIngresses(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		class := func(name, controller string) *networkingv1.IngressClass {
			return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller}}
		}
		ingress := func(name, class, annotation string) *networkingv1.Ingress {
			in := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: networkingv1.IngressSpec{
				DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}}}}
			if class != "" {
				in.Spec.IngressClassName = &class
			}
			if annotation != "" {
				in.Annotations = map[string]string{"kubernetes.io/ingress.class": annotation}
			}
			return in
		}
		e.CreateAll(class("ours", loadbalancer.IngressController), class("nginx", "k8s.io/ingress-nginx"),
			ingress("plain", "", ""), ingress("ours", "ours", ""), ingress("legacy", "", "ours"), ingress("nginx", "nginx", ""), ingress("none", "later", ""))
		e.WaitIdle()
		check := func(want map[string]string) {
			t.Helper()
			for name, address := range want {
				in, got := &networkingv1.Ingress{}, ""
				e.Must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, in))
				for _, i := range in.Status.LoadBalancer.Ingress {
					got += i.IP
				}
				if got != address {
					t.Errorf("%s has %q, want %q", name, got, address)
				}
			}
		}
		const address = "10.64.255.254"
		check(map[string]string{"plain": address, "ours": address, "legacy": address, "nginx": "", "none": ""})
		e.CreateAll(class("later", loadbalancer.IngressController))
		e.WaitIdle()
		check(map[string]string{"none": address, "nginx": ""})
	})
}

// TestRefusedAddresses: an address in another notation, or of the load balancer of Ingresses, is not free.
func TestRefusedAddresses(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(asking("first", "10.64.0.1"))
		e.WaitIdle()
		for name, address := range map[string]string{"mapped": "::ffff:10.64.0.1", "zone": "fe80::1%eth0", "ingress": "10.64.255.254"} {
			e.CreateAll(asking(name, address))
			e.WaitIdle()
			if got := state(e, name); got != "" {
				t.Errorf("the Service %s has %q", name, got)
			}
		}
	})
}
