package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/kinds/podspec"
)

// podWith returns a pod with one container, changed by YAML and then defaulted.
func podWith(t *testing.T, change string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(10)),
		Containers:                    []corev1.Container{{Name: "web", Image: "nginx"}},
	}}
	if err := yaml.Unmarshal([]byte(change), pod); err != nil {
		t.Fatal(err)
	}
	DefaultPod(pod)
	return pod
}

func TestQOSClass(t *testing.T) {
	for name, tc := range map[string]struct {
		resources []string
		want      corev1.PodQOSClass
	}{
		"nothing":               {[]string{`{}`}, corev1.PodQOSBestEffort},
		"only disk":             {[]string{`{requests: {ephemeral-storage: 1Gi}}`}, corev1.PodQOSBestEffort},
		"requests":              {[]string{`{requests: {cpu: 1}}`}, corev1.PodQOSBurstable},
		"limits of both":        {[]string{`{limits: {cpu: 1, memory: 1Gi}}`}, corev1.PodQOSGuaranteed},
		"limit of one":          {[]string{`{limits: {cpu: 1}}`}, corev1.PodQOSBurstable},
		"less asked for":        {[]string{`{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}`}, corev1.PodQOSBurstable},
		"only one of them does": {[]string{`{limits: {cpu: 1, memory: 1Gi}}`, `{}`}, corev1.PodQOSBurstable},
	} {
		t.Run(name, func(t *testing.T) {
			var containers []string
			for i, r := range tc.resources {
				containers = append(containers, fmt.Sprintf("{name: c%d, image: x, resources: %s}", i, r))
			}
			pod := podWith(t, fmt.Sprintf("spec: {containers: [%s]}", strings.Join(containers, ", ")))
			if got := QOSClass(&pod.Spec); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPodGracePeriod(t *testing.T) {
	for name, tc := range map[string]struct {
		patch string
		want  time.Duration
	}{
		"nowhere yet":   {`{}`, 0},
		"running":       {`spec: {nodeName: node1}`, 10 * time.Second},
		"done":          {`{spec: {nodeName: node1}, status: {phase: Succeeded}}`, 0},
		"negative":      {`spec: {nodeName: node1, terminationGracePeriodSeconds: -5}`, time.Second},
		"by default":    {`spec: {nodeName: node1, terminationGracePeriodSeconds: null}`, 30 * time.Second},
		"none is asked": {`spec: {nodeName: node1, terminationGracePeriodSeconds: 0}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podWith(t, tc.patch)
			if got := podGracePeriod(pod); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPodRow(t *testing.T) {
	for name, tc := range map[string]struct {
		patch string
		want  []any
	}{
		"pending": {`status: {phase: Pending}`, []any{"0/1", "Pending", "0"}},
		"running": {`{spec: {nodeName: node1}, status: {phase: Running, containerStatuses: [{name: web, ready: true, state: {running: {}}}]}}`, []any{"1/1", "Running", "0"}},
		"waiting": {`status: {phase: Running, containerStatuses: [{name: web, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}}]}`, []any{"0/1", "CrashLoopBackOff", "3"}},
		"failed":  {`status: {phase: Failed, containerStatuses: [{name: web, state: {terminated: {exitCode: 3}}}]}`, []any{"0/1", "ExitCode:3", "0"}},
		"initializing": {`{spec: {initContainers: [{name: a, image: x}, {name: b, image: x}]}, status: {phase: Pending, initContainerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}, {name: b, state: {running: {}}}]}}`,
			[]any{"0/1", "Init:1/2", "0"}},
		"init failed": {`{spec: {initContainers: [{name: a, image: x}]}, status: {phase: Pending, initContainerStatuses: [{name: a, restartCount: 1, state: {waiting: {reason: ErrImagePull}}}]}}`,
			[]any{"0/1", "Init:ErrImagePull", "1"}},
		"sidecar": {`{spec: {initContainers: [{name: a, image: x, restartPolicy: Always}]}, status: {phase: Running, initContainerStatuses: [{name: a, started: true, ready: true, state: {running: {}}}], containerStatuses: [{name: web, ready: true, state: {running: {}}}]}}`,
			[]any{"2/2", "Running", "0"}},
		"going":   {`{metadata: {deletionTimestamp: "2026-01-02T03:04:05Z"}, status: {phase: Running}}`, []any{"0/1", "Terminating", "0"}},
		"evicted": {`status: {phase: Failed, reason: Evicted}`, []any{"0/1", "Evicted", "0"}},
		"gated":   {`status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`, []any{"0/1", "SchedulingGated", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podWith(t, tc.patch)
			if d := cmp.Diff(tc.want, podRow(pod)[:3]); d != "" {
				t.Errorf("cells (-want +got):\n%s", d)
			}
		})
	}
}

// unsorted returns the messages of errors in their order.
func unsorted(errs field.ErrorList) []string {
	var list []string
	for _, err := range errs {
		list = append(list, err.Error())
	}
	return list
}

// TestPodVolumeOrder has the errors of several sources in kube-apiserver's order.
func TestPodVolumeOrder(t *testing.T) {
	pod := podWith(t, `{metadata: {name: p, namespace: default}, spec: {volumes: [{name: `+strings.Repeat("a", 40)+`,
		emptyDir: {}, iscsi: {targetPortal: `+strings.Repeat("p", 40)+`, iqn: "iqn.2001-04.a.b:x", initiatorName: "iqn.2001-04.a.b:y"},
		csi: {driver: a.b}}]}}`)
	want := []string{
		"spec.volumes[0].iscsi: Forbidden: may not specify more than 1 volume type",
		`spec.volumes[0].name: Invalid value: "` + strings.Repeat("a", 40) + `": ` + podspec.LongISCSIMessage,
		"spec.volumes[0].csi: Forbidden: may not specify more than 1 volume type",
	}
	if d := cmp.Diff(want, unsorted(ValidatePod(pod, nil))); d != "" {
		t.Errorf("errors (-want +got):\n%s", d)
	}
}

// TestValidPodAllocates checks that the validation of a valid pod costs little: the lists of errors, and some paths.
func TestValidPodAllocates(t *testing.T) {
	pod := podWith(t, `{metadata: {name: p, namespace: default, labels: {app: web}}, spec: {
		securityContext: {runAsUser: 1}, tolerations: [{key: a.b/c, operator: Exists}],
		volumes: [{name: cache, emptyDir: {}}], containers: [{name: web, image: nginx, env: [{name: A, value: b}],
		ports: [{containerPort: 80}], volumeMounts: [{name: cache, mountPath: /cache}],
		resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}, readinessProbe: {httpGet: {path: /, port: 80}}}]}}`)
	if n := testing.AllocsPerRun(100, func() {
		if errs := ValidatePod(pod, nil); len(errs) > 0 {
			t.Fatal(errs)
		}
	}); n > 9 {
		t.Errorf("%v allocations", n)
	}
}
