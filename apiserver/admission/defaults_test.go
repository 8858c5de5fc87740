package admission_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
)

// quantities returns a list of resources from names and quantities in turn.
func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestLimitRangerPlugin(t *testing.T) {
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	ctx := t.Context()
	pods, n := client.CoreV1().Pods("default"), 0
	create := func(requests, limits corev1.ResourceList) (*corev1.Pod, error) {
		n++
		p := controlplanetest.ExamplePod(n)
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
		return pods.Create(ctx, p, metav1.CreateOptions{})
	}
	limit := func(name string, item corev1.LimitRangeItem) {
		t.Helper()
		_ = client.CoreV1().LimitRanges("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		r := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
		if _, err := client.CoreV1().LimitRanges("default").Create(ctx, r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	limit("defaults", corev1.LimitRangeItem{
		Type: corev1.LimitTypeContainer, Default: quantities("cpu", "500m", "memory", "512Mi"), DefaultRequest: quantities("cpu", "100m"),
		Max: quantities("cpu", "1"), Min: quantities("cpu", "50m"), MaxLimitRequestRatio: quantities("cpu", "6"),
	})
	p, err := create(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := p.Spec.Containers[0].Resources
	if c.Requests.Cpu().String() != "100m" || c.Limits.Memory().String() != "512Mi" ||
		p.Annotations["kubernetes.io/limit-ranger"] != "LimitRanger plugin set: cpu, memory request for container web; cpu, memory limit for container web" {
		t.Errorf("%+v, %q", c, p.Annotations)
	}
	_, err = create(quantities("cpu", "10m"), quantities("cpu", "2"))
	controlplanetest.Forbidden(t, err, `pods "pod-2" is forbidden: [minimum cpu usage per Container is 50m, but request is 10m, maximum cpu usage per Container is 1, but limit is 2, cpu max limit to request ratio per Container is 6, but provided ratio is 200.000000]`)
	limit("pods", corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: quantities("memory", "1Gi")})
	_, err = create(nil, nil)
	controlplanetest.Forbidden(t, err, `pods "pod-3" is forbidden: maximum memory usage per Pod is 1Gi.  No limit is specified`)
	limit("claims", corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: quantities("storage", "1Gi")})
	_, err = client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim("big", "2Gi"), metav1.CreateOptions{})
	controlplanetest.Forbidden(t, err, `persistentvolumeclaims "big" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`)
}

func claim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: quantities("storage", size)},
	}}
}

func TestDefaultClassPlugins(t *testing.T) {
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	ctx := t.Context()
	claims, ingresses := client.CoreV1().PersistentVolumeClaims("default"), client.NetworkingV1().Ingresses("default")
	if c, err := claims.Create(ctx, claim("before", "1Gi"), metav1.CreateOptions{}); err != nil || c.Spec.StorageClassName != nil {
		t.Errorf("without a default class: %v, %v", err, c)
	}
	for _, name := range []string{"b", "a"} {
		_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}, Provisioner: "p",
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.NetworkingV1().IngressClasses().Create(ctx, &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"ingressclass.kubernetes.io/is-default-class": "true"}},
			Spec:       networkingv1.IngressClassSpec{Controller: "example.com/c"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if c, err := claims.Create(ctx, claim("after", "1Gi"), metav1.CreateOptions{}); err != nil || c.Spec.StorageClassName == nil {
		t.Errorf("with a default class: %v, %v", err, c)
	}
	none := claim("none", "1Gi")
	none.Spec.StorageClassName = new("")
	if c, err := claims.Create(ctx, none, metav1.CreateOptions{}); err != nil || *c.Spec.StorageClassName != "" {
		t.Errorf("a claim without a class: %v, %v", err, c)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "i"}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	if i, err := ingresses.Create(ctx, ingress, metav1.CreateOptions{}); err != nil || i.Spec.IngressClassName == nil {
		t.Errorf("an ingress: %v, %v", err, i)
	}
}

func TestPodSecurityPlugin(t *testing.T) {
	cfg := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config()
	var seen controlplanetest.Warnings
	cfg.WarningHandler = &seen
	client := controlplanetest.ClientFor(t, cfg)
	ctx := t.Context()
	labeled := func(labels string) error {
		_, err := client.CoreV1().Namespaces().Patch(ctx, "default", types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{})
		return err
	}
	create := func(n int) error {
		_, err := client.CoreV1().Pods("default").Create(ctx, controlplanetest.ExamplePod(n), metav1.CreateOptions{})
		return err
	}
	if err := create(1); err != nil {
		t.Fatal(err)
	}
	if err := labeled(`{"pod-security.kubernetes.io/enforce":"strict"}`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be one of privileged, baseline, restricted") {
		t.Errorf("an unknown level: %v", err)
	}
	if err := labeled(`{"pod-security.kubernetes.io/warn":"restricted"}`); err != nil {
		t.Fatal(err)
	}
	if err := create(2); err != nil {
		t.Fatal(err)
	}
	if got := seen.Take(); !slices.ContainsFunc(got, func(w string) bool {
		return strings.HasPrefix(w, `would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false`)
	}) {
		t.Errorf("warnings of a pod: %q", got)
	}
	if err := labeled(`{"pod-security.kubernetes.io/enforce":"restricted"}`); err != nil {
		t.Fatal(err)
	}
	if got := seen.Take(); !slices.ContainsFunc(got, func(w string) bool {
		return strings.HasPrefix(w, `existing pods in namespace "default" violate the new PodSecurity enforce level "restricted:latest"`)
	}) {
		t.Errorf("warnings of existing pods: %q", got)
	}
	controlplanetest.Forbidden(t, create(3), `pods "pod-3" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`)
	if err := createDeployment(ctx, client); err != nil { // only its pods are refused
		t.Error(err)
	}
}

func createDeployment(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.AppsV1().Deployments("default").Create(ctx, controlplanetest.ExampleDeployment(), metav1.CreateOptions{})
	return err
}
