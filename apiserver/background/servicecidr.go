package background

import (
	"context"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/kinds/networking"
)

var serviceCIDRs = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")

// serviceCIDRManager is the field manager of the default ServiceCIDR's condition, as in
// kube-apiserver.
const serviceCIDRManager = "kubernetes-service-cidr-controller"

// reconcileServiceCIDR creates the default ServiceCIDR if it is missing, and sets its condition Ready if the condition
// is missing. A ServiceCIDR that is being deleted is left to the ServiceCIDR controller.
//
//upstream:pkg/controlplane/controller/defaultservicecidr.Controller.sync
func (k *kubernetesService) reconcileServiceCIDR() error {
	wanted := networking.DefaultServiceCIDR(k.network)
	if _, err := k.objects.seed(serviceCIDRs, wanted); err != nil {
		return err
	}
	r, _ := k.objects.catalog.Snapshot().Lookup(serviceCIDRs)
	ctx := request.WithNamespace(request.WithUser(k.loops.stopping, serverUser), "")
	obj, err := r.Storage.(rest.Getter).Get(ctx, wanted.Name, &metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	is := obj.(*networkingv1.ServiceCIDR)
	if is.DeletionTimestamp != nil || meta.FindStatusCondition(is.Status.Conditions, networkingv1.ServiceCIDRConditionReady) != nil {
		return nil
	}
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR",
		"metadata": map[string]any{"name": wanted.Name},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": networkingv1.ServiceCIDRConditionReady, "status": string(metav1.ConditionTrue),
			"message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		}}},
	}}
	status := r.Subresource("status")
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		return status.Scope.FieldManager.Apply(old, applied, serviceCIDRManager, true)
	})
	_, _, err = status.Storage.(rest.Updater).Update(ctx, wanted.Name, info,
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return ignoreNotFound(err)
}
