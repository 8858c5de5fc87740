// Package podautoscaler scales the targets of HorizontalPodAutoscalers by metrics.
//
// The next step is a pure function of the scaler, the scale of its target, the pods, a sample of each metric and the
// scaler's history ([plan]). The metrics APIs are read through the API server: metrics.k8s.io, and custom.metrics.k8s.io
// and external.metrics.k8s.io if an extension serves them. A scaler takes a step when it is created or its specification
// changes, and every 15 seconds, also after a failure.
//
// The API server computes metrics.k8s.io from the stored pods, with a function of package usage or of the user. The
// module test/mirror lets this controller and Kubernetes' read the same metrics over minutes of virtual time.
package podautoscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// interval is the time between the steps of a scaler.
//
//upstream:pkg/controller/podautoscaler/config/v1alpha1.RecommendedDefaultHPAControllerConfiguration
const interval = 15 * time.Second

// AddToManager adds the controller.
//
//upstream:pkg/controller/podautoscaler.NewHorizontalController
func AddToManager(mgr manager.Manager) error {
	r := &reconciler{
		client: mgr.GetClient(), mapper: meta.ToRESTMapperWithContext(mgr.GetRESTMapper()), recorder: events.RecorderFor(mgr, "horizontal-pod-autoscaler"),
		metrics: newMetrics(mgr.GetConfig(), mgr.GetRESTMapper()), scalers: map[types.NamespacedName]*scaler{},
	}
	return builder.ControllerManagedBy(mgr).
		Named("horizontalpodautoscaler").
		For(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		Complete(r)
}

// reconciler reconciles HorizontalPodAutoscalers.
type reconciler struct {
	client   client.Client
	mapper   meta.RESTMapperWithContext
	recorder record.EventRecorder
	metrics  *metrics

	mu      sync.Mutex
	scalers map[types.NamespacedName]*scaler
}

// scaler is the controller's memory of a HorizontalPodAutoscaler.
type scaler struct {
	history history // of its reconciles, which do not overlap
	// selector selects the pods of its last target. It is nil before the first reconcile.
	selector labels.Selector
}

// Reconcile scales the target of one HorizontalPodAutoscaler.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.reconcileKey
//upstream:pkg/controller/podautoscaler.HorizontalController.processNextWorkItem
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := r.client.Get(ctx, req.NamespacedName, hpa); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if err := r.step(ctx, hpa); err != nil {
		log.FromContext(ctx).V(1).Info("A HorizontalPodAutoscaler does not scale", "reason", err.Error())
	}
	return reconcile.Result{RequeueAfter: interval}, nil
}

// remembered returns the history of a scaler.
func (r *reconciler) remembered(key types.NamespacedName) *scaler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scalers[key] == nil {
		r.scalers[key] = &scaler{}
	}
	return r.scalers[key]
}

// forget forgets a scaler.
func (r *reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.scalers, key)
}

// step takes the next step of a scaler.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.reconcileAutoscaler
func (r *reconciler) step(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	before := hpa.Status.DeepCopy()
	target, scale, err := r.scaleOf(ctx, hpa)
	if err != nil {
		r.recorder.Event(hpa, corev1.EventTypeWarning, "FailedGetScale", err.Error())
		hpa.Status.Conditions = setCondition(hpa.Status.Conditions, autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale",
			fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err), time.Now())
		return r.updateStatus(ctx, hpa, before)
	}
	self := r.remembered(client.ObjectKeyFromObject(hpa))
	p := newPlan(hpa, scale, &self.history, time.Now())
	if p.needsMetrics() {
		err = r.compute(ctx, p, self, scale.Status.Selector)
	}
	if p.rescales() {
		if failed := r.rescale(ctx, target, scale, p.desired); failed != nil {
			p.notRescaled(failed)
		} else {
			p.rescaled()
		}
	}
	for _, e := range p.events {
		r.recorder.Event(hpa, e.kind, e.reason, e.message)
	}
	hpa.Status = p.status()
	if failed := r.updateStatus(ctx, hpa, before); failed != nil {
		return failed
	}
	return err
}

// scaleOf returns the target of a scaler, with its kind and its name alone, and the target's scale.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.scaleForResourceMappings
func (r *reconciler) scaleOf(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler) (client.Object, *autoscalingv1.Scale, error) {
	ref := &hpa.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, nil, err
	}
	mappings, err := r.mapper.RESTMappingsWithContext(ctx, schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if err != nil {
		return nil, nil, err
	}
	first := errors.New("unrecognized resource")
	for i, mapping := range mappings {
		target := &unstructured.Unstructured{}
		target.SetGroupVersionKind(mapping.GroupVersionKind)
		target.SetNamespace(hpa.Namespace)
		target.SetName(ref.Name)
		scale := &autoscalingv1.Scale{}
		err := r.client.SubResource("scale").Get(ctx, target, scale)
		if err == nil {
			return target, scale, nil
		}
		if i == 0 {
			first = err
		}
	}
	return nil, nil, first
}

// compute lets a plan compute the desired replicas by metrics.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.validateAndParseSelector
func (r *reconciler) compute(ctx context.Context, p *plan, self *scaler, text string) error {
	hpa := p.scaler
	if text == "" {
		err := errors.New("selector is required")
		p.invalid("SelectorRequired", "InvalidSelector", "the HPA target's scale is missing a selector", err)
		return err
	}
	selector, err := labels.Parse(text)
	if err != nil {
		err := fmt.Errorf("couldn't convert selector into a corresponding internal selector object: %w", err)
		p.invalid("InvalidSelector", "InvalidSelector", err.Error(), err)
		return err
	}
	list := &corev1.PodList{}
	if err := r.client.List(ctx, list, client.InNamespace(hpa.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return err
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	if all := r.selecting(client.ObjectKeyFromObject(hpa), self, selector, pods); len(all) > 1 {
		err := fmt.Errorf("pods by selector %v are controlled by more than one HPA (e.g. %v)", text, all[:2])
		p.invalid("AmbiguousSelector", "AmbiguousSelector", err.Error(), err)
		return err
	}
	samples := make([]sample, len(hpa.Spec.Metrics))
	for i := range hpa.Spec.Metrics {
		samples[i] = r.metrics.sample(ctx, &hpa.Spec.Metrics[i], hpa.Namespace, selector)
	}
	return p.compute(pods, samples)
}

// selecting sets the selector of a scaler, and returns the scalers that select any of the pods, sorted.
//
//upstream:pkg/controller/podautoscaler.hpaSelectorStore.HPAsMatchingPods
func (r *reconciler) selecting(key types.NamespacedName, self *scaler, selector labels.Selector, pods []*corev1.Pod) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	self.selector = selector
	return overlapping(r.scalers, key.Namespace, pods)
}

// rescale writes the scale of a target. After a conflict it reads the scale again.
func (r *reconciler) rescale(ctx context.Context, target client.Object, scale *autoscalingv1.Scale, replicas int32) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale.Spec.Replicas = replicas
		err := r.client.SubResource("scale").Update(ctx, target, client.WithSubResourceBody(scale))
		if apierrors.IsConflict(err) {
			latest := &autoscalingv1.Scale{}
			if r.client.SubResource("scale").Get(ctx, target, latest) == nil {
				scale = latest
			}
		}
		return err
	})
}

// updateStatus writes the status of a scaler if it has changed.
//
//upstream:pkg/controller/podautoscaler.HorizontalController.updateStatusIfNeeded
//upstream:pkg/controller/podautoscaler.HorizontalController.updateStatus
func (r *reconciler) updateStatus(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler,
	before *autoscalingv2.HorizontalPodAutoscalerStatus) error {
	if equality.Semantic.DeepEqual(&hpa.Status, before) {
		return nil
	}
	err := client.IgnoreNotFound(r.client.Status().Update(ctx, hpa))
	if err != nil {
		r.recorder.Event(hpa, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
	}
	return err
}
