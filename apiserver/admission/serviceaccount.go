package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/storage/names"

	"flyball.dev/apiserver/admission/stored"
	"flyball.dev/apiserver/admission/upstream"
)

const (
	defaultAccount = "default"
	// accountTimeout is how long a new pod waits for the service account "default" of its namespace.
	accountTimeout = 5 * time.Second

	tokenVolumePrefix = "kube-api-access-"
	tokenMountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is the token lifetime that kube-apiserver recognizes as this plugin's.
	tokenSeconds int64 = 3607
)

// serviceAccount sets the service account of each new pod, checks that the account exists, and mounts a volume with the
// account's token in every container.
//
//upstream:plugin/pkg/admission/serviceaccount.Plugin
type serviceAccount struct {
	*admission.Handler
	accounts *stored.Reader[*corev1.ServiceAccount]
}

var (
	_ admission.MutationInterface   = (*serviceAccount)(nil)
	_ admission.ValidationInterface = (*serviceAccount)(nil)
)

func newServiceAccount(o Environment) admission.Interface {
	return &serviceAccount{
		Handler:  admission.NewHandler(admission.Create),
		accounts: stored.NewReader[*corev1.ServiceAccount](o, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
	}
}

func (s *serviceAccount) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || mirrors(pod) {
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = defaultAccount
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	var account *corev1.ServiceAccount
	err := upstream.Measure(ctx, a, upstream.StepAdmit, ServiceAccount, func() (err error) {
		account, err = s.account(ctx, a.GetNamespace(), pod.Spec.ServiceAccountName)
		return err
	})
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("error looking up service account %s/%s: %w",
			a.GetNamespace(), pod.Spec.ServiceAccountName, err))
	}
	if automounts(account, pod) {
		mountToken(&pod.Spec)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
	}
	return nil
}

// account returns a service account. It waits for the account "default", which a controller creates after the
// namespace.
func (s *serviceAccount) account(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	account, err := s.accounts.Get(ctx, namespace, name)
	if errors.IsNotFound(err) && name == defaultAccount {
		ctx, cancel := context.WithTimeout(ctx, accountTimeout)
		defer cancel()
		account, err = s.accounts.Await(ctx, namespace, name)
	}
	if errors.IsNotFound(err) {
		err = errors.NewNotFound(corev1.Resource("serviceaccount"), name)
	}
	return account, err
}

// Validate rejects mirror pods with a service account. A mirror pod represents a static pod of a kubelet.
func (s *serviceAccount) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || !mirrors(pod) {
		return nil
	}
	if pod.Spec.ServiceAccountName != "" {
		return admission.NewForbidden(a, fmt.Errorf("a mirror pod may not reference service accounts"))
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
			return p.ServiceAccountToken != nil
		}) {
			return admission.NewForbidden(a, fmt.Errorf("a mirror pod may not use ServiceAccountToken volume projections"))
		}
	}
	return nil
}

// mirrors reports whether a pod is the mirror of a static pod.
func mirrors(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// automounts reports whether to mount the token. The pod's setting takes precedence over the account's.
func automounts(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	for _, choice := range [...]*bool{pod.Spec.AutomountServiceAccountToken, account.AutomountServiceAccountToken} {
		if choice != nil {
			return *choice
		}
	}
	return true
}

// mountToken mounts the token in every container that has no other mount at the path.
func mountToken(s *corev1.PodSpec) {
	mount := corev1.VolumeMount{ReadOnly: true, MountPath: tokenMountPath}
	given := slices.IndexFunc(s.Volumes, func(v corev1.Volume) bool {
		return strings.HasPrefix(v.Name, tokenVolumePrefix)
	})
	if given >= 0 {
		mount.Name = s.Volumes[given].Name
	} else {
		mount.Name = names.SimpleNameGenerator.GenerateName(tokenVolumePrefix)
	}
	mounted := false
	for _, containers := range [...][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			c := &containers[i]
			if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenMountPath }) {
				c.VolumeMounts = append(c.VolumeMounts, mount)
				mounted = true
			}
		}
	}
	if mounted && given < 0 {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: mount.Name,
			VolumeSource: corev1.VolumeSource{Projected: tokenSource()}})
	}
}

// tokenSource projects the data that a program in a pod needs to reach the API server: a token, the CA certificate, and
// the namespace.
func tokenSource() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: new(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(tokenSeconds)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}
