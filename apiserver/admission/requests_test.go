package admission_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/apiserver/admission"
	"flyball.dev/controllers"
	"flyball.dev/controlplane"
)

func TestServiceAccountPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{}).Config())
		ctx := t.Context()
		// The account of a new namespace is created a moment later, and the plugin waits for it.
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := controlplanetest.ExamplePod(1)
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: "own", Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: "own", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		})
		p.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p, err := client.CoreV1().Pods("new").Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Spec.ServiceAccountName != "default" || p.Spec.DeprecatedServiceAccount != "default" {
			t.Errorf("the account is %q, %q", p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount)
		}
		if len(p.Spec.Volumes) != 2 || !strings.HasPrefix(p.Spec.Volumes[1].Name, "kube-api-access-") || len(p.Spec.Volumes[1].Projected.Sources) != 3 {
			t.Fatalf("volumes %+v", p.Spec.Volumes)
		}
		want := corev1.VolumeMount{Name: p.Spec.Volumes[1].Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
		for _, c := range []corev1.Container{p.Spec.InitContainers[0], p.Spec.Containers[0]} {
			if diff := cmp.Diff([]corev1.VolumeMount{want}, c.VolumeMounts); diff != "" {
				t.Errorf("%s mounts (-want +got):\n%s", c.Name, diff)
			}
		}
		if m := p.Spec.Containers[1].VolumeMounts; len(m) != 1 || m[0].Name != "own" {
			t.Errorf("a mount of its own was replaced: %+v", m)
		}

		p = controlplanetest.ExamplePod(2)
		p.Spec.ServiceAccountName = "missing"
		_, err = client.CoreV1().Pods("new").Create(ctx, p, metav1.CreateOptions{})
		controlplanetest.Forbidden(t, err, `error looking up service account new/missing: serviceaccount "missing" not found`)

		began := time.Now()
		_, err = client.CoreV1().Pods("nowhere").Create(ctx, controlplanetest.ExamplePod(2), metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "nowhere" not found`) || time.Since(began) > 0 {
			t.Errorf("in no namespace: %v, after %s", err, time.Since(began))
		}

		account := &corev1.ServiceAccount{
			ObjectMeta:                   metav1.ObjectMeta{Name: "robot"},
			AutomountServiceAccountToken: new(false), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		}
		if _, err := client.CoreV1().ServiceAccounts("new").Create(ctx, account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p = controlplanetest.ExamplePod(3)
		p.Spec.ServiceAccountName = "robot"
		p, err = client.CoreV1().Pods("new").Create(ctx, p, metav1.CreateOptions{})
		if err != nil || len(p.Spec.Volumes) != 0 || len(p.Spec.ImagePullSecrets) != 1 || p.Spec.ImagePullSecrets[0].Name != "registry" {
			t.Errorf("a pod of an account without a mounted token: %v, %+v", err, p.Spec)
		}
	})
}

// TestWithoutServiceAccountController creates pods where nothing creates service accounts.
func TestWithoutServiceAccountController(t *testing.T) {
	for name, o := range map[string]controlplane.Options{
		"without controllers":     {WithoutControllers: true},
		"without that controller": {Controllers: controllers.Options{Without: []string{"serviceaccount-controller"}}},
		"without the plugin":      {Admission: admission.Options{Disable: []string{"ServiceAccount"}}},
	} {
		t.Run(name, func(t *testing.T) {
			client := controlplanetest.ClientFor(t, controlplanetest.Start(t, o).Config())
			p := controlplanetest.ExamplePod(1)
			p.Spec.ServiceAccountName = "missing"
			p, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
			if err != nil || len(p.Spec.Volumes) != 0 {
				t.Errorf("%v, %+v", err, p.Spec.Volumes)
			}
		})
	}
}

func TestUnknownAdmissionPlugin(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Admission: admission.Options{Disable: []string{"Magic"}}})
	if err == nil {
		plane.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), `there is no admission plugin "Magic"; there are AlwaysAdmit, NamespaceAutoProvision, NamespaceLifecycle, `) {
		t.Errorf("got %v", err)
	}
}

func TestPriorityPlugin(t *testing.T) {
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	ctx := t.Context()
	pods, classes := client.CoreV1().Pods("default"), client.SchedulingV1().PriorityClasses()
	n := 0
	create := func(class string, change func(p *corev1.Pod)) (*corev1.Pod, error) {
		n++
		p := controlplanetest.ExamplePod(n)
		p.Spec.PriorityClassName = class
		if change != nil {
			change(p)
		}
		return pods.Create(ctx, p, metav1.CreateOptions{})
	}
	expect := func(class, wantClass string, priority int32, policy corev1.PreemptionPolicy) *corev1.Pod {
		t.Helper()
		p, err := create(class, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Spec.PriorityClassName != wantClass || *p.Spec.Priority != priority || *p.Spec.PreemptionPolicy != policy {
			t.Errorf("class %q: got %q, %d, %s", class, p.Spec.PriorityClassName, *p.Spec.Priority, *p.Spec.PreemptionPolicy)
		}
		return p
	}
	expect("", "", 0, corev1.PreemptLowerPriority)
	expect("system-node-critical", "system-node-critical", 2000001000, corev1.PreemptLowerPriority)
	expect("system-cluster-critical", "system-cluster-critical", 2000000000, corev1.PreemptLowerPriority)
	_, err := create("missing", nil)
	controlplanetest.Forbidden(t, err, "no PriorityClass with name missing was found")

	for _, c := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever)},
		{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 10, GlobalDefault: true},
	} {
		if _, err := classes.Create(ctx, c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	created := expect("high", "high", 1000, corev1.PreemptNever)
	expect("", "usual", 10, corev1.PreemptLowerPriority) // with the next pod after the default is there
	_, err = classes.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, GlobalDefault: true}, metav1.CreateOptions{})
	controlplanetest.Forbidden(t, err, "PriorityClass usual is already marked as default. Only one default can exist")
	_, err = create("high", func(p *corev1.Pod) { p.Spec.Priority = new(int32(7)) })
	controlplanetest.Forbidden(t, err, "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 1000")
	_, err = create("high", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptLowerPriority) })
	controlplanetest.Forbidden(t, err, "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec")

	created.Spec.Priority, created.Spec.PreemptionPolicy = nil, nil // by a client that does not know them
	created.Labels = map[string]string{"a": "b"}
	if created, err = pods.Update(ctx, created, metav1.UpdateOptions{}); err != nil || *created.Spec.Priority != 1000 {
		t.Errorf("updated: %v", err)
	}

	if _, err := classes.Patch(ctx, "usual", types.MergePatchType, []byte(`{"globalDefault":false}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("", "", 0, corev1.PreemptLowerPriority)
	if err := classes.Delete(ctx, "high", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = create("high", nil)
	controlplanetest.Forbidden(t, err, "no PriorityClass with name high was found")
	controlplanetest.Forbidden(t, classes.Delete(ctx, "system-node-critical", metav1.DeleteOptions{}), "this is a system priority class and cannot be deleted")
}

func TestDefaultTolerationSecondsPlugin(t *testing.T) {
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	toleration := func(taint string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	notReady, unreachable := toleration(corev1.TaintNodeNotReady, 300), toleration(corev1.TaintNodeUnreachable, 300)
	all := corev1.Toleration{Operator: corev1.TolerationOpExists}
	own := toleration(corev1.TaintNodeNotReady, 5)
	for i, tc := range []struct{ given, want []corev1.Toleration }{
		{nil, []corev1.Toleration{notReady, unreachable}},
		{[]corev1.Toleration{own}, []corev1.Toleration{own, unreachable}},
		{[]corev1.Toleration{all}, []corev1.Toleration{all}},
	} {
		p := controlplanetest.ExamplePod(i)
		p.Spec.Tolerations = tc.given
		p, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Spec.Tolerations) != len(tc.want) {
			t.Fatalf("%d: %+v", i, p.Spec.Tolerations)
		}
		for j := range tc.want {
			if !p.Spec.Tolerations[j].MatchToleration(&tc.want[j]) || p.Spec.Tolerations[j].TolerationSeconds != nil && *p.Spec.Tolerations[j].TolerationSeconds != *tc.want[j].TolerationSeconds {
				t.Errorf("%d: %+v", i, p.Spec.Tolerations[j])
			}
		}
	}
}

func TestRuntimeClassPlugin(t *testing.T) {
	client := controlplanetest.ClientFor(t, controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
	ctx := t.Context()
	overhead := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	_, err := client.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox"}, Handler: "runsc", Overhead: &nodev1.Overhead{PodFixed: overhead},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"sandbox": "yes"}, Tolerations: []corev1.Toleration{{Key: "sandbox", Operator: corev1.TolerationOpExists}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create := func(n int, class string, change func(*corev1.PodSpec)) (*corev1.Pod, error) {
		p := controlplanetest.ExamplePod(n)
		if class != "" {
			p.Spec.RuntimeClassName = &class
		}
		change(&p.Spec)
		return client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
	}
	p, err := create(1, "sandbox", func(*corev1.PodSpec) {})
	if err != nil {
		t.Fatal(err)
	}
	if p.Spec.Overhead.Cpu().String() != "250m" || p.Spec.NodeSelector["sandbox"] != "yes" || p.Spec.Tolerations[len(p.Spec.Tolerations)-1].Key != "sandbox" {
		t.Errorf("%+v", p.Spec)
	}
	_, err = create(2, "missing", func(*corev1.PodSpec) {})
	controlplanetest.Forbidden(t, err, `pod rejected: RuntimeClass "missing" not found`)
	_, err = create(3, "sandbox", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"sandbox": "no"} })
	controlplanetest.Forbidden(t, err, "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no")
	_, err = create(4, "sandbox", func(s *corev1.PodSpec) {
		s.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	})
	controlplanetest.Forbidden(t, err, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	_, err = create(5, "", func(s *corev1.PodSpec) { s.Overhead = overhead })
	controlplanetest.Forbidden(t, err, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
}
