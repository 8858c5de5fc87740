package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
	"flyball.dev/internal/quota"
)

// limitRanger sets the default requests and limits of new pods from the LimitRanges of the namespace, and rejects pods
// and claims that violate a LimitRange.
//
//upstream:plugin/pkg/admission/limitranger.LimitRanger
type limitRanger struct {
	*admission.Handler
	ranges *stored.Informer[*corev1.LimitRange]
}

var (
	_ admission.MutationInterface   = (*limitRanger)(nil)
	_ admission.ValidationInterface = (*limitRanger)(nil)
)

func newLimitRanger(e Environment) admission.Interface {
	return &limitRanger{
		Handler: admission.NewHandler(admission.Create, admission.Update),
		ranges:  stored.NewInformer[*corev1.LimitRange](e, corev1.SchemeGroupVersion.WithResource("limitranges")),
	}
}

// limitedAttributes reports whether a request can violate a LimitRange. Updates do not change the resources of
// containers, except through the subresource resize.
//
//upstream:plugin/pkg/admission/limitranger.DefaultLimitRangerActions.SupportsAttributes
func limitedAttributes(a admission.Attributes) bool {
	if pod, _ := a.GetOldObject().(*corev1.Pod); pod != nil && pod.DeletionTimestamp != nil {
		return false
	}
	if claim, _ := a.GetOldObject().(*corev1.PersistentVolumeClaim); claim != nil && claim.DeletionTimestamp != nil {
		return false
	}
	switch a.GetResource().GroupResource() {
	case corev1.Resource("pods"):
		return a.GetSubresource() == "" && a.GetOperation() == admission.Create ||
			a.GetSubresource() == "resize" && a.GetOperation() == admission.Update
	case corev1.Resource("persistentvolumeclaims"):
		return a.GetSubresource() == ""
	}
	return false
}

// limits returns the LimitRanges of the request's namespace, sorted by name.
func (l *limitRanger) limits(ctx context.Context, a admission.Attributes) ([]*corev1.LimitRange, error) {
	if !limitedAttributes(a) {
		return nil, nil
	}
	some, err := l.ranges.Sync(ctx)
	if err != nil {
		return nil, errors.NewInternalError(err)
	}
	if !some {
		return nil, nil
	}
	return l.ranges.In(a.GetNamespace()), nil
}

// Admit implements [admission.MutationInterface].
func (l *limitRanger) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ranges, err := l.limits(ctx, a)
	if err != nil {
		return err
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil
	}
	for _, r := range ranges {
		defaultResources(pod, r)
	}
	return nil
}

// Validate implements [admission.ValidationInterface].
func (l *limitRanger) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ranges, err := l.limits(ctx, a)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		var errs []error
		switch obj := a.GetObject().(type) {
		case *corev1.Pod:
			errs = podLimits(obj, r)
		case *corev1.PersistentVolumeClaim:
			errs = claimLimits(obj, r)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

// defaultResources sets the missing requests and limits of each container to the defaults, and records them in an
// annotation.
//
//upstream:plugin/pkg/admission/limitranger.PodMutateLimitFunc
//upstream:plugin/pkg/admission/limitranger.mergePodResourceRequirements
//upstream:plugin/pkg/admission/limitranger.defaultContainerResourceRequirements
func defaultResources(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range r.Spec.Limits {
		if item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	var set []string
	containers := func(what string, list []corev1.Container) {
		for i := range list {
			c := &list[i]
			for _, part := range []struct {
				name     string
				defaults corev1.ResourceList
				to       *corev1.ResourceList
			}{{"request", requests, &c.Resources.Requests}, {"limit", limits, &c.Resources.Limits}} {
				if names := setMissing(part.to, part.defaults); len(names) > 0 {
					set = append(set, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), part.name, what, c.Name))
				}
			}
		}
	}
	containers("container", pod.Spec.Containers)
	containers("init container", pod.Spec.InitContainers)
	if len(set) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["kubernetes.io/limit-ranger"] = "LimitRanger plugin set: " + strings.Join(set, "; ")
}

// setMissing adds the missing defaults to a list, and returns their names.
//
//upstream:plugin/pkg/admission/limitranger.mergeContainerResources
func setMissing(list *corev1.ResourceList, defaults corev1.ResourceList) []string {
	var names []string
	for name, quantity := range defaults {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = quantity.DeepCopy()
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// maxLimitErrors is the number of errors after which no more containers are compared with a LimitRange.
const maxLimitErrors = 1000

// podLimits returns the violations of a LimitRange by a pod.
//
//upstream:plugin/pkg/admission/limitranger.PodValidateLimitFunc
func podLimits(pod *corev1.Pod, r *corev1.LimitRange) []error {
	var errs []error
	for _, item := range r.Spec.Limits {
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
				if len(errs) > maxLimitErrors {
					return errs // a message quotes each
				}
				errs = append(errs, checkLimits(item, c.Resources.Requests, c.Resources.Limits)...)
			}
		case corev1.LimitTypePod:
			requests, limits := quota.Requirements(pod)
			errs = append(errs, checkLimits(item, requests, limits)...)
		}
	}
	return errs
}

// checkLimits checks requests and limits against one item of a LimitRange.
//
//upstream:plugin/pkg/admission/limitranger.minConstraint
//upstream:plugin/pkg/admission/limitranger.maxConstraint
//upstream:plugin/pkg/admission/limitranger.maxRequestConstraint
//upstream:plugin/pkg/admission/limitranger.limitRequestRatioConstraint
func checkLimits(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	each(item.Min, func(name corev1.ResourceName, least resource.Quantity) {
		errs = append(errs, checkMin(item.Type, name, least, requests, limits))
	})
	each(item.Max, func(name corev1.ResourceName, most resource.Quantity) {
		request, requested := requests[name]
		limit, limited := limits[name]
		at := fmt.Sprintf("maximum %s usage per %s is %s", name, item.Type, most.String())
		switch {
		case !limited:
			errs = append(errs, fmt.Errorf("%s.  No limit is specified", at))
		case limit.Cmp(most) > 0:
			errs = append(errs, fmt.Errorf("%s, but limit is %s", at, limit.String()))
		case requested && request.Cmp(most) > 0:
			errs = append(errs, fmt.Errorf("%s, but request is %s", at, request.String()))
		}
	})
	each(item.MaxLimitRequestRatio, func(name corev1.ResourceName, most resource.Quantity) {
		request, limit := requests[name], limits[name]
		at := fmt.Sprintf("%s max limit to request ratio per %s is %s", name, item.Type, most.String())
		ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64()
		switch {
		case request.IsZero():
			errs = append(errs, fmt.Errorf("%s, but no request is specified or request is 0", at))
		case limit.IsZero():
			errs = append(errs, fmt.Errorf("%s, but no limit is specified or limit is 0", at))
		case ratio > most.AsApproximateFloat64():
			errs = append(errs, fmt.Errorf("%s, but provided ratio is %f", at, ratio))
		}
	})
	return errs
}

// checkMin returns an error if a request or limit is too small, or if there is no request.
func checkMin(kind corev1.LimitType, name corev1.ResourceName, least resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	at := fmt.Sprintf("minimum %s usage per %s is %s", name, kind, least.String())
	switch {
	case !requested:
		return fmt.Errorf("%s.  No request is specified", at)
	case request.Cmp(least) < 0:
		return fmt.Errorf("%s, but request is %s", at, request.String())
	case limited && limit.Cmp(least) < 0:
		return fmt.Errorf("%s, but limit is %s", at, limit.String())
	}
	return nil
}

// claimLimits returns the violations of a LimitRange by a claim.
//
//upstream:plugin/pkg/admission/limitranger.PersistentVolumeClaimValidateLimitFunc
func claimLimits(claim *corev1.PersistentVolumeClaim, r *corev1.LimitRange) []error {
	var errs []error
	requests := claim.Spec.Resources.Requests
	for _, item := range r.Spec.Limits {
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		each(item.Min, func(name corev1.ResourceName, least resource.Quantity) {
			errs = append(errs, checkMin(item.Type, name, least, requests, nil))
		})
		each(item.Max, func(name corev1.ResourceName, most resource.Quantity) {
			request, requested := requests[name]
			at := fmt.Sprintf("maximum %s usage per %s is %s", name, item.Type, most.String())
			switch {
			case !requested:
				errs = append(errs, fmt.Errorf("%s.  No request is specified", at))
			case request.Cmp(most) > 0:
				errs = append(errs, fmt.Errorf("%s, but request is %s", at, request.String()))
			}
		})
	}
	return errs
}

// each calls f for each resource in the order of the names.
func each(list corev1.ResourceList, f func(corev1.ResourceName, resource.Quantity)) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		f(name, list[name])
	}
}
