package upstream

import (
	"context"
	"errors"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	podsecurity "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"flyball.dev/apiserver/admission/stored"
)

// podSecurity enforces the Pod Security Standards that the labels of a namespace choose.
//
//upstream:plugin/pkg/admission/security/podsecurity.Plugin
type podSecurity struct {
	*admission.Handler
	namespaces stored.Namespaces
	// delegate returns the library's plugin, which is made when a namespace has one of its labels.
	delegate func() (*podsecurity.Admission, error)
	// always is set if namespaces without a label may be restricted too, by the configuration.
	always bool
}

var _ admission.ValidationInterface = (*podSecurity)(nil)

// PodSecurityApplies reports whether the Pod Security Standards concern a resource: its objects have pod specs, or are the
// namespaces with the labels.
func PodSecurityApplies(r schema.GroupResource) bool {
	return r == corev1.Resource("namespaces") || podsecurity.DefaultPodSpecExtractor{}.HasPodSpec(r)
}

// NewPodSecurity returns the plugin PodSecurity, with upstream's evaluator over the store.
func NewPodSecurity(e Environment, data []byte) (admission.Interface, error) {
	all := stored.NewNamespaces(e)
	pods := stored.NewReader[*corev1.Pod](e, corev1.SchemeGroupVersion.WithResource("pods"))
	p := &podSecurity{
		always:     data != nil,
		Handler:    admission.NewHandler(admission.Create, admission.Update),
		namespaces: all,
		delegate: sync.OnceValues(func() (*podsecurity.Admission, error) {
			configuration, err := load.LoadFromData(data)
			if err != nil {
				return nil, err
			}
			evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
			if err != nil {
				return nil, err
			}
			a := &podsecurity.Admission{
				Configuration: configuration, Evaluator: evaluator, Metrics: noMetrics{},
				PodSpecExtractor: podsecurity.DefaultPodSpecExtractor{},
				NamespaceGetter:  podSecurityNamespaces{all}, PodLister: podSecurityPods{pods},
			}
			if err := a.CompleteConfiguration(); err != nil {
				return nil, err
			}
			return a, a.ValidateConfiguration()
		}),
	}
	if p.always {
		_, err := p.delegate() // reports errors in the configuration
		return p, err
	}
	return p, nil
}

// Validate implements [admission.ValidationInterface]. [PodSecurityApplies] is true for the resource.
func (p *podSecurity) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if governed, err := p.governed(ctx, a); err != nil || !governed {
		return err
	}
	delegate, err := p.delegate()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	response := delegate.Validate(ctx, podSecurityAttributes{a})
	for _, w := range response.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for key, value := range response.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+key, value)
	}
	if response.Allowed {
		return nil
	}
	//lint:ignore ST1005 clients know this text of kube-apiserver
	refused := admission.NewForbidden(a, errors.New("Not allowed by PodSecurity"))
	status, ok := refused.(*apierrors.StatusError)
	result := response.Result
	if !ok || result == nil {
		return refused
	}
	if result.Message != "" {
		status.ErrStatus.Message = result.Message
	}
	if result.Reason != "" {
		status.ErrStatus.Reason = result.Reason
	}
	if result.Details != nil {
		status.ErrStatus.Details = result.Details
	}
	if result.Code != 0 {
		status.ErrStatus.Code = result.Code
	}
	return status
}

// governed reports whether the namespace of a request, or the one that it writes, has a label of
// the Pod Security Standards. Without any, everything is allowed by default.
func (p *podSecurity) governed(ctx context.Context, a admission.Attributes) (bool, error) {
	if p.always {
		return true, nil
	}
	if written, ok := a.GetObject().(*corev1.Namespace); ok {
		old, _ := a.GetOldObject().(*corev1.Namespace)
		return hasPodSecurityLabel(written) || old != nil && hasPodSecurityLabel(old), nil
	}
	namespace, err := p.namespaces.Get(ctx, "", a.GetNamespace())
	if err != nil {
		return false, err
	}
	return hasPodSecurityLabel(namespace), nil
}

func hasPodSecurityLabel(n *corev1.Namespace) bool {
	for label := range n.Labels {
		if strings.HasPrefix(label, podSecurityLabels) {
			return true
		}
	}
	return false
}

// podSecurityLabels is the prefix of the labels of the Pod Security Standards.
const podSecurityLabels = "pod-security.kubernetes.io/"

// podSecurityAttributes are the attributes of a request in the types of the library.
type podSecurityAttributes struct{ admission.Attributes }

func (a podSecurityAttributes) GetObject() (runtime.Object, error) {
	return a.Attributes.GetObject(), nil
}

func (a podSecurityAttributes) GetOldObject() (runtime.Object, error) {
	return a.Attributes.GetOldObject(), nil
}

func (a podSecurityAttributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}

func (a podSecurityAttributes) GetUserName() string { return a.GetUserInfo().GetName() }

// podSecurityNamespaces gets namespaces. Their labels set the levels.
type podSecurityNamespaces struct{ stored.Namespaces }

func (n podSecurityNamespaces) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return n.Get(ctx, "", name)
}

// podSecurityPods lists the pods that a change of a namespace's level warns of.
type podSecurityPods struct{ *stored.Reader[*corev1.Pod] }

func (p podSecurityPods) ListPods(ctx context.Context, namespace string) (pods []*corev1.Pod, err error) {
	return pods, p.Each(ctx, namespace, func(pod *corev1.Pod) { pods = append(pods, pod) })
}

// noMetrics records nothing.
type noMetrics struct{}

func (noMetrics) RecordEvaluation(metrics.Decision, api.LevelVersion, metrics.Mode, api.Attributes) {}
func (noMetrics) RecordExemption(api.Attributes)                                                    {}
func (noMetrics) RecordError(bool, api.Attributes)                                                  {}
