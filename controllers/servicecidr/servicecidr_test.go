package servicecidr_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestServiceCIDR deletes a ServiceCIDR while a service has an address of it, and then the service.
func TestServiceCIDR(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ctx := e.Context()
		cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/24"}}}
		key := client.ObjectKeyFromObject(cidr)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "s"},
			Spec: corev1.ServiceSpec{ClusterIP: "10.200.0.7", Ports: []corev1.ServicePort{{Port: 80}}}}
		e.Must(e.Create(ctx, cidr))
		e.Must(e.Create(ctx, service))
		e.WaitIdle()
		e.Must(e.Get(ctx, key, cidr))
		if !meta.IsStatusConditionTrue(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady) || len(cidr.Finalizers) != 1 {
			t.Errorf("a new ServiceCIDR: %v, %v", cidr.Finalizers, cidr.Status)
		}
		e.Must(e.Delete(ctx, cidr))
		time.Sleep(time.Minute)
		e.WaitIdle()
		e.Must(e.Get(ctx, key, cidr))
		if c := meta.FindStatusCondition(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady); c == nil ||
			c.Status != metav1.ConditionFalse || c.Reason != networkingv1.ServiceCIDRReasonTerminating {
			t.Errorf("a deleted ServiceCIDR whose addresses are in use: %v", cidr.Status)
		}
		second := service.DeepCopy()
		second.Name, second.ResourceVersion, second.Spec.ClusterIP, second.Spec.ClusterIPs = "t", "", "10.200.0.8", nil
		if err := e.Create(ctx, second); !apierrors.IsInvalid(err) {
			t.Errorf("a service gets an address of a ServiceCIDR that is being deleted: %v", err)
		}
		e.Must(e.Delete(ctx, service))
		e.WaitIdle()
		if err := e.Get(ctx, key, cidr); !apierrors.IsNotFound(err) {
			t.Errorf("a deleted ServiceCIDR whose addresses are free: %v, %v", err, cidr.Finalizers)
		}
		kubernetes := &networkingv1.ServiceCIDR{}
		e.Must(e.Get(ctx, client.ObjectKey{Name: "kubernetes"}, kubernetes))
		if !meta.IsStatusConditionTrue(kubernetes.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			t.Errorf("the default ServiceCIDR: %v", kubernetes.Status)
		}
	})
}
