package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// alwaysPullImages makes the nodes pull all images of a pod, which proves that the pod has the credentials. It does not
// change an update without new images.
//
//upstream:plugin/pkg/admission/alwayspullimages.AlwaysPullImages
type alwaysPullImages struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = alwaysPullImages{}
	_ admission.ValidationInterface = alwaysPullImages{}
)

func newAlwaysPullImages(Environment) admission.Interface {
	return alwaysPullImages{admission.NewHandler(admission.Create, admission.Update)}
}

// Admit implements [admission.MutationInterface].
func (alwaysPullImages) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || !hasNewImage(a, pod) {
		return nil
	}
	eachPullPolicy(&pod.Spec, func(p *corev1.PullPolicy, _ *field.Path) { *p = corev1.PullAlways })
	return nil
}

// Validate implements [admission.ValidationInterface].
func (alwaysPullImages) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || !hasNewImage(a, pod) {
		return nil
	}
	var errs []error
	eachPullPolicy(&pod.Spec, func(p *corev1.PullPolicy, at *field.Path) {
		if *p != corev1.PullAlways {
			errs = append(errs, admission.NewForbidden(a, field.NotSupported(at, *p, []string{string(corev1.PullAlways)})))
		}
	})
	return errors.NewAggregate(errs)
}

// hasNewImage reports whether a container has an image that the old pod did not use.
//
//upstream:plugin/pkg/admission/alwayspullimages.isUpdateWithNoNewImages
func hasNewImage(a admission.Attributes, pod *corev1.Pod) bool {
	old, ok := a.GetOldObject().(*corev1.Pod)
	if a.GetOperation() != admission.Update || !ok {
		return true
	}
	known := sets.New[string]()
	eachContainer(&old.Spec, func(c *containerFields, _ *field.Path) { known.Insert(*c.image) })
	found := false
	eachContainer(&pod.Spec, func(c *containerFields, _ *field.Path) { found = found || !known.Has(*c.image) })
	return found
}

// containerFields are the common fields of all types of containers.
type containerFields struct {
	image      *string
	pullPolicy *corev1.PullPolicy
}

// eachContainer calls f for the init containers, the containers and the ephemeral containers.
func eachContainer(spec *corev1.PodSpec, f func(*containerFields, *field.Path)) {
	at := field.NewPath("spec")
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		f(&containerFields{&c.Image, &c.ImagePullPolicy}, at.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		f(&containerFields{&c.Image, &c.ImagePullPolicy}, at.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		f(&containerFields{&c.Image, &c.ImagePullPolicy}, at.Child("ephemeralContainers").Index(i))
	}
}

// eachPullPolicy calls f for the pull policy of each container and each image volume.
func eachPullPolicy(spec *corev1.PodSpec, f func(*corev1.PullPolicy, *field.Path)) {
	eachContainer(spec, func(c *containerFields, at *field.Path) { f(c.pullPolicy, at.Child("imagePullPolicy")) })
	for i, v := range spec.Volumes {
		if v.Image != nil {
			f(&v.Image.PullPolicy, field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy"))
		}
	}
}
