package core

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// podParts are the subresources that update the ephemeral containers and the resources of a pod.
//
//upstream:pkg/registry/core/pod/storage.EphemeralContainersREST
//upstream:pkg/registry/core/pod/storage.ResizeREST
//upstream:pkg/registry/core/pod.podEphemeralContainersStrategy
//upstream:pkg/registry/core/pod.podResizeStrategy
var podParts = map[string]kinds.Part[*corev1.Pod]{
	// These subresources reset no fields, so a manager owns every field that its request sets.
	"ephemeralcontainers": {Prepare: prepareEphemeral, Validate: validateEphemeral},
	"resize":              {Prepare: prepareResize, Validate: validateResize},
}

// keepPod makes p the old pod with another spec, and raises the generation if the spec changes.
//
//upstream:pkg/registry/core/pod.dropNonEphemeralContainerUpdates
//upstream:pkg/registry/core/pod.dropNonResizeUpdates
//upstream:pkg/registry/core/pod.updatePodGeneration
func keepPod(p, old *corev1.Pod, spec *corev1.PodSpec) {
	p.Spec, p.Status = *spec, old.Status
	metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
	if !equality.Semantic(p.Spec, old.Spec) {
		p.Generation++
	}
}

// prepareEphemeral keeps the old pod except for the ephemeral containers.
//
//upstream:pkg/registry/core/pod.podEphemeralContainersStrategy.PrepareForUpdate
//upstream:pkg/registry/core/pod.dropNonEphemeralContainerUpdates
func prepareEphemeral(_ context.Context, p, old *corev1.Pod) {
	spec := old.Spec
	spec.EphemeralContainers = p.Spec.EphemeralContainers
	keepPod(p, old, &spec)
}

// mirrorAnnotation is the annotation of static pods.
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// validateEphemeral checks the pod, and that an update only adds ephemeral containers.
//
//upstream:pkg/apis/core/validation.ValidatePodEphemeralContainersUpdate
func validateEphemeral(p, old *corev1.Pod) field.ErrorList {
	if _, static := old.Annotations[mirrorAnnotation]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := ValidatePod(p, old)
	now := map[string]*corev1.EphemeralContainer{}
	for i := range p.Spec.EphemeralContainers {
		now[p.Spec.EphemeralContainers[i].Name] = &p.Spec.EphemeralContainers[i]
	}
	list := fieldrules.Spec.Child("ephemeralContainers")
	for _, was := range old.Spec.EphemeralContainers {
		if is := now[was.Name]; is == nil {
			errs = append(errs, field.Forbidden(list.Field(), fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		} else if !equality.Semantic(was, *is) {
			errs = append(errs, field.Forbidden(list.Field(), fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(was, *is))))
		}
	}
	return errs
}

// prepareResize keeps the old pod except for the resources and the resize policies. If the containers
// differ in number or name, prepareResize leaves them to the validation.
//
//upstream:pkg/registry/core/pod.podResizeStrategy.PrepareForUpdate
//upstream:pkg/registry/core/pod.dropNonResizeUpdates
func prepareResize(_ context.Context, p, old *corev1.Pod) {
	if len(p.Spec.Containers) != len(old.Spec.Containers) || len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		keepResources(&p.Spec, &old.Spec)
		podspec.CompleteResources(&p.Spec)
		if !equality.Semantic(p.Spec, old.Spec) {
			p.Generation++
		}
		return
	}
	spec := old.Spec
	spec.Resources = p.Spec.Resources
	keepResources(&spec, &old.Spec)
	spec.Containers = resized(p.Spec.Containers, old.Spec.Containers)
	spec.InitContainers = resized(p.Spec.InitContainers, old.Spec.InitContainers)
	podspec.CompleteResources(&spec)
	keepPod(p, old, &spec)
}

// resized returns the old containers with the new resources and resize policies. If the names differ, it
// returns the new containers.
//
//upstream:pkg/registry/core/pod.dropNonResizeUpdatesForContainers
func resized(now, old []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(old))
	copy(out, old)
	for i := range now {
		if now[i].Name != old[i].Name {
			return now
		}
		out[i].Resources, out[i].ResizePolicy = now[i].Resources, now[i].ResizePolicy
	}
	if len(out) == 0 {
		return old
	}
	return out
}

// validateResize checks the pod, that only CPU and memory change, and that the node supports a resize: it reports the
// resources of running containers.
//
//upstream:pkg/apis/core/validation.isPodResizeRequestSupported
//upstream:pkg/apis/core/validation.ValidatePodResize
func validateResize(p, old *corev1.Pod) field.ErrorList {
	if _, static := old.Annotations[mirrorAnnotation]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if os := old.Spec.OS; os != nil && os.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	errs := ValidatePod(p, old)
	class := old.Status.QOSClass
	if class == "" {
		class = QOSClass(&old.Spec)
	}
	if class != QOSClass(&p.Spec) {
		errs = append(errs, field.Invalid(fieldrules.Spec.Field(), p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if running := slices.IndexFunc(old.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil
	}); running >= 0 && old.Status.ContainerStatuses[running].Resources == nil {
		errs = append(errs, field.Forbidden(fieldrules.Spec.Field(), "Pod running on node without support for resize"))
	}
	if sized(&old.Spec) || sized(&p.Spec) {
		errs = append(errs, resizePod(p, old)...)
	}
	order := append(sameContainers(p.Spec.Containers, old.Spec.Containers, "containers"),
		sameContainers(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	if len(order) > 0 {
		return append(errs, order...)
	}
	errs = append(errs, resizeContainers(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	errs = append(errs, resizeContainers(p.Spec.Containers, old.Spec.Containers, "containers")...)
	if len(errs) == 0 && !sized(&p.Spec) && !sized(&old.Spec) &&
		!equality.Semantic(p.Spec.Resources, old.Spec.Resources) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.Field(), "only cpu and memory resources are mutable"))
	}
	return errs
}

// sized reports whether a pod has resources as a whole, of any name.
//
//upstream:pkg/apis/core/validation.ValidatePodResize
func sized(s *corev1.PodSpec) bool {
	return s.Resources != nil && len(s.Resources.Requests)+len(s.Resources.Limits) > 0
}

// sameContainers checks that a resize neither adds, removes, renames nor reorders containers.
//
//upstream:pkg/apis/core/validation.validatePodResizeContainerOrdering
func sameContainers(now, old []corev1.Container, name string) field.ErrorList {
	list := fieldrules.Spec.Child(name)
	if len(now) != len(old) {
		return field.ErrorList{field.Forbidden(list.Field(), name+" may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range old {
		if at := list.Index(i); now[i].Name != old[i].Name {
			errs = append(errs, field.Forbidden(at.ChildField("name"), name+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// resizeContainers checks the new resources of containers.
//
//upstream:pkg/apis/core/validation.ValidatePodResize
//upstream:pkg/apis/core/validation.validateContainerResize
func resizeContainers(now, old []corev1.Container, name string) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child(name)
	for i := range old {
		item := list.Index(i)
		at := item.Child("resources")
		is, was := &now[i].Resources, &old[i].Resources
		if removed(is.Requests, was.Requests) {
			errs = append(errs, field.Forbidden(at.ChildField("requests"), "resource requests cannot be removed"))
		}
		if removed(is.Limits, was.Limits) {
			errs = append(errs, field.Forbidden(at.ChildField("limits"), "resource limits cannot be removed"))
		}
		init := name == "initContainers"
		if !sameBesidesCPUAndMemory(is, was) || !equality.Semantic(now[i].ResizePolicy, old[i].ResizePolicy) {
			if init {
				errs = append(errs, field.Forbidden(item.Field(), "only cpu and memory resources for init or sidecar containers are mutable"))
			} else {
				errs = append(errs, field.Forbidden(fieldrules.Spec.Field(), "only cpu and memory resources are mutable"))
			}
		}
		if !init || podspec.Sidecar(&now[i]) || equality.Semantic(&now[i], &old[i]) {
			continue
		}
		for _, p := range now[i].ResizePolicy {
			if p.RestartPolicy == corev1.RestartContainer {
				errs = append(errs, field.Forbidden(item.Field(), "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
			}
		}
	}
	return errs
}

// resizePod checks the new resources of the pod as a whole.
//
//upstream:pkg/apis/core/validation.validatePodLevelResourcesResize
func resizePod(p, old *corev1.Pod) field.ErrorList {
	is, was := p.Spec.Resources, old.Spec.Resources
	if was == nil && is == nil {
		return nil
	}
	at := fieldrules.Spec.Child("resources")
	if is == nil {
		return field.ErrorList{field.Forbidden(at.Field(), "pod-level resources cannot be removed")}
	}
	if was == nil {
		was = &corev1.ResourceRequirements{}
	}
	var errs field.ErrorList
	if removed(is.Requests, was.Requests) {
		errs = append(errs, field.Forbidden(at.ChildField("requests"), "pod-level resource requests cannot be removed"))
	}
	if removed(is.Limits, was.Limits) {
		errs = append(errs, field.Forbidden(at.ChildField("limits"), "pod-level resource limits cannot be removed"))
	}
	if !sameBesidesCPUAndMemory(is, was) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.Field(), "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

// removed reports whether a resource of the old list is missing from the new list.
//
//upstream:pkg/apis/core/validation.resourcesRemoved
func removed(now, old corev1.ResourceList) bool {
	if len(old) > len(now) {
		return true
	}
	for name := range old {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// sameBesidesCPUAndMemory reports whether a and b are equal except for CPU and memory.
//
//upstream:pkg/apis/core/validation.dropCPUMemoryResourceRequirementsUpdates
func sameBesidesCPUAndMemory(a, b *corev1.ResourceRequirements) bool {
	rest := func(list corev1.ResourceList) corev1.ResourceList {
		out := maps.Clone(list)
		delete(out, corev1.ResourceCPU)
		delete(out, corev1.ResourceMemory)
		return out
	}
	return equality.Semantic(rest(a.Limits), rest(b.Limits)) && equality.Semantic(rest(a.Requests), rest(b.Requests)) &&
		equality.Semantic(a.Claims, b.Claims)
}
