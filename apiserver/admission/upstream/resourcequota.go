package upstream

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/admission/stored"
	"flyball.dev/apiserver/managedfields"
	"flyball.dev/internal/quota"
)

// maxCharges bounds how often a request is charged again after another write of a quota.
const maxCharges = 10

// resourceQuota refuses what would exceed a quota of its namespace, and charges the quotas for what
// it allows. Upstream's CheckRequest decides whether a request fits. There is no queue of
// checks: the requests of a namespace that has quotas are charged one after the other.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/resourcequota.QuotaAdmission
type resourceQuota struct {
	*admission.Handler
	environment Environment
	quotas      *stored.Informer[*corev1.ResourceQuota]
	namespaces  sync.Map // of *sync.Mutex by name
}

var _ admission.ValidationInterface = (*resourceQuota)(nil)

// QuotaApplies reports whether quotas may apply to a resource.
func QuotaApplies(r schema.GroupResource) bool {
	return r != corev1.Resource("namespaces") && !quota.Ignored(r)
}

// NewResourceQuota returns the plugin ResourceQuota.
func NewResourceQuota(e Environment) admission.Interface {
	return &resourceQuota{
		Handler:     admission.NewHandler(admission.Create, admission.Update),
		environment: e,
		quotas:      stored.NewInformer[*corev1.ResourceQuota](e, corev1.SchemeGroupVersion.WithResource("resourcequotas")),
	}
}

// Validate implements [admission.ValidationInterface]. [QuotaApplies] is true for the resource.
func (q *resourceQuota) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	namespace := a.GetNamespace()
	if namespace == "" {
		return nil
	}
	quotas, err := q.in(ctx, namespace)
	if err != nil || len(quotas) == 0 {
		return err
	}
	evaluator := quota.Evaluator(a.GetResource().GroupResource(), nil)
	if !evaluator.Handles(a) {
		return nil
	}
	return Measure(ctx, a, StepValidate, resourcequota.PluginName, func() error {
		locked, _ := q.namespaces.LoadOrStore(namespace, &sync.Mutex{})
		mu := locked.(*sync.Mutex)
		mu.Lock()
		defer mu.Unlock()
		return q.charge(ctx, a, evaluator)
	})
}

// in returns copies of the quotas of a namespace.
func (q *resourceQuota) in(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	some, err := q.quotas.Sync(ctx)
	if err != nil {
		return nil, errors.NewInternalError(err)
	}
	if !some {
		return nil, nil
	}
	var quotas []corev1.ResourceQuota
	for _, one := range q.quotas.In(namespace) {
		quotas = append(quotas, *one.DeepCopy())
	}
	return quotas, nil
}

// charge checks a request against the quotas and writes their new usage. A quota that was written
// meanwhile is checked again; those that have been charged are not.
//
//upstream:k8s.io/apiserver/pkg/admission/plugin/resourcequota.CheckRequest
func (q *resourceQuota) charge(ctx context.Context, a admission.Attributes, evaluator quotav1.Evaluator) error {
	charged := map[string]bool{}
	var conflict error
	for range maxCharges {
		quotas, err := q.in(ctx, a.GetNamespace())
		if err != nil {
			return err
		}
		var open []corev1.ResourceQuota
		for _, one := range quotas {
			if !charged[one.Name] {
				open = append(open, one)
			}
		}
		updated, err := resourcequota.CheckRequest(open, a, evaluator, nil)
		if err != nil || a.IsDryRun() {
			return err
		}
		conflict = nil
		for i := range updated {
			if quotav1.Equals(open[i].Status.Used, updated[i].Status.Used) {
				continue
			}
			switch err := q.setUsed(ctx, &updated[i]); {
			case errors.IsConflict(err):
				conflict = err
			case err != nil && !errors.IsNotFound(err):
				return err
			default:
				charged[updated[i].Name] = true
			}
		}
		if conflict == nil {
			return nil
		}
	}
	return conflict
}

// quotaStatus computes who manages the fields of a quota's status.
var quotaStatus = managedfields.ForType(reflect.TypeFor[corev1.ResourceQuota](), "v1",
	fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec")))

// setUsed writes the usage of a quota if the quota has not changed.
func (q *resourceQuota) setUsed(ctx context.Context, updated *corev1.ResourceQuota) error {
	status, ok := q.environment.Status(q.quotas.Resource()).(rest.Updater)
	if !ok {
		return errors.NewNotFound(q.quotas.Resource().GroupResource(), updated.Name)
	}
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		current := old.(*corev1.ResourceQuota)
		if stored.VersionOf(current) != stored.VersionOf(updated) {
			return nil, errors.NewConflict(q.quotas.Resource().GroupResource(), updated.Name, fmt.Errorf("the quota has changed"))
		}
		changed := current.DeepCopy()
		changed.Status.Used = updated.Status.Used
		quotaStatus.Update(current, changed, managedfields.Write{Manager: "kube-apiserver",
			Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"})
		return changed, nil
	})
	_, _, err := status.Update(q.quotas.Scope(context.WithoutCancel(ctx), updated.Namespace), updated.Name, info,
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}
