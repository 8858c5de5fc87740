// Package webhook has the mutating webhook that adds a sidecar to Pods.
package webhook

import (
	"context"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/webhook/admission"
)

const (
	// InjectLabel marks the Pods that get a sidecar: those where its value is "true".
	InjectLabel = "sidecar.example.com/inject"
	// PortAnnotation has the port on which the sidecar listens, 15001 by default.
	PortAnnotation = "sidecar.example.com/port"
	// ContainerName is the name of the sidecar.
	ContainerName = "mesh-proxy"
)

const (
	image       = "proxy.example.com/mesh-proxy:1.4"
	defaultPort = 15001
)

// SetUpWithManager registers the webhook with the manager.
func SetUpWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &corev1.Pod{}).WithDefaulter(&Injector{}).Complete()
}

// +kubebuilder:webhook:path=/mutate--v1-pod,mutating=true,failurePolicy=fail,sideEffects=None,groups="",resources=pods,verbs=create,versions=v1,name=mpod-v1.kb.io,admissionReviewVersions=v1

// Injector adds the sidecar to Pods. It has no state and no side effects, so that it may be called
// for a dry run, and again for the same object.
type Injector struct{}

var _ admission.Defaulter[*corev1.Pod] = &Injector{}

// Default adds the sidecar to a pod that is created, if its label asks for one and it has none. The
// label is checked although the selector of the webhook does it too: that belongs to another file,
// and to whoever installs it.
func (*Injector) Default(ctx context.Context, pod *corev1.Pod) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	if request.Operation != admissionv1.Create || pod.Labels[InjectLabel] != "true" || injected(pod) {
		return nil // the containers of a pod that exists cannot be changed
	}
	port, invalid := portOf(pod)
	if invalid != nil {
		kind := corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
		return apierrors.NewInvalid(kind, pod.Name, field.ErrorList{invalid})
	}
	pod.Spec.InitContainers = slices.Insert(pod.Spec.InitContainers, 0, sidecar(port))
	log.FromContext(ctx).Info("Sidecar added.", "pod", nameOf(pod, request.Namespace))
	return nil
}

// injected returns whether a pod has the sidecar.
func injected(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == ContainerName })
}

// portOf returns the port of the sidecar.
func portOf(pod *corev1.Pod) (int32, *field.Error) {
	value, ok := pod.Annotations[PortAnnotation]
	if !ok {
		return defaultPort, nil
	}
	path := field.NewPath("metadata", "annotations").Key(PortAnnotation)
	port, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, field.Invalid(path, value, "must be a number")
	}
	if problems := validation.IsValidPortNum(int(port)); len(problems) > 0 {
		return 0, field.Invalid(path, value, problems[0])
	}
	return int32(port), nil
}

// sidecar returns the container. It is an init container that is always restarted: it starts before
// the containers of the pod, runs beside them, and does not keep the pod of a Job from completing.
func sidecar(port int32) corev1.Container {
	return corev1.Container{
		Name:          ContainerName,
		Image:         image,
		Args:          []string{"--listen", ":" + strconv.Itoa(int(port))},
		Ports:         []corev1.ContainerPort{{Name: "mesh", ContainerPort: port}},
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
	}
}

// nameOf returns the name of a pod, which may have only a prefix of one yet, and no namespace.
func nameOf(pod *corev1.Pod, namespace string) string {
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "*"
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		name += " of " + owner.Kind + " " + owner.Name
	}
	return namespace + "/" + name
}
