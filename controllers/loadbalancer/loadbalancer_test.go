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
	"k8s.io/utils/ptr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/controllerstest"
	"flyball.dev/controllers/loadbalancer"
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
		taken := service("taken")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(taken), taken))
		taken.Labels = map[string]string{"try": "again"}
		e.Must(e.Update(e.Context(), taken))
		e.WaitIdle()
		if got := state(e, "taken"); got != finalizer+", 192.0.2.7 VIP" {
			t.Errorf("the Service that asks for a free address has %q", got)
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
