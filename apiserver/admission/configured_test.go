package admission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestEventRateLimit checks that each key has its own rate and that a limiter refills with time. Dry runs and objects
// other than events of the core group do not count.
func TestEventRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin, err := newEventRateLimit(Environment{}, []byte(`{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration,
			limits: [{type: Namespace, qps: 1, burst: 2, cacheSize: 2}, {type: SourceAndObject, qps: 1, burst: 3}, {type: User, qps: 1, burst: 6}]}`))
		if err != nil {
			t.Fatal(err)
		}
		kind, dryRun := "Event", false
		create := func(namespace, object string) error {
			event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, InvolvedObject: corev1.ObjectReference{Name: object}}
			resource := corev1.SchemeGroupVersion.WithResource("events")
			return plugin.(admission.ValidationInterface).Validate(t.Context(), admission.NewAttributesRecord(event, nil,
				corev1.SchemeGroupVersion.WithKind(kind), namespace, "e", resource, "", admission.Create, nil, dryRun, &user.DefaultInfo{Name: "ann"}), nil)
		}
		refused := func(err error, want string) {
			t.Helper()
			if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		expect(t, "first", create("a", "x"), "")
		expect(t, "second", create("a", "y"), "")
		refused(create("a", "z"), "limit reached on type Namespace for key a")
		expect(t, "another namespace", create("b", "x"), "")
		dryRun = true
		expect(t, "dry run", create("a", "x"), "")
		kind, dryRun = "Pod", false
		expect(t, "no event", create("a", "x"), "")
		kind = "Event"
		time.Sleep(time.Second) // virtual
		expect(t, "after a second", create("a", "x"), "")
		refused(create("a", "x"), "limit reached on type Namespace for key a")
		refused(create("a", "x"), "[limit reached on type Namespace for key a, limit reached on type SourceAndObject for key x]")
		refused(create("c", "y"), "limit reached on type User for key ann") // what another limit refuses counts too
	})
}

// TestPodTolerations checks that the tolerations of the namespace take precedence over the configuration's.
func TestPodTolerations(t *testing.T) {
	const (
		gpu     = `[{"key":"gpu","operator":"Exists"}]`
		arm     = `[{"key":"arch","operator":"Equal","value":"arm","effect":"NoSchedule"}]`
		cluster = `{"apiVersion":"podtolerationrestriction.admission.k8s.io/v1alpha1","kind":"Configuration","default":` + arm + `,"whitelist":` + arm + `}`
	)
	pressure := corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	onArm := corev1.Toleration{Key: "arch", Operator: corev1.TolerationOpEqual, Value: "arm", Effect: corev1.TaintEffectNoSchedule}
	onGPU := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	for name, tc := range map[string]struct {
		annotations   map[string]string
		configuration string
		given         []corev1.Toleration
		cpu           string
		operation     admission.Operation
		want          []corev1.Toleration
		fails         string
	}{
		"nothing":         {},
		"burstable":       {cpu: "1", want: []corev1.Toleration{pressure}},
		"no requests":     {cpu: "0"},
		"default":         {annotations: map[string]string{defaultTolerationsAnnotation: gpu}, want: []corev1.Toleration{onGPU}},
		"no default":      {annotations: map[string]string{defaultTolerationsAnnotation: gpu}, operation: admission.Update},
		"of the cluster":  {configuration: cluster, want: []corev1.Toleration{onArm}},
		"not the cluster": {configuration: cluster, annotations: map[string]string{defaultTolerationsAnnotation: ""}},
		"allowed": {annotations: map[string]string{allowedTolerationsAnnotation: gpu},
			given: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "a"}},
			want:  []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "a"}}},
		"refused": {annotations: map[string]string{allowedTolerationsAnnotation: gpu}, given: []corev1.Toleration{onArm},
			want: []corev1.Toleration{onArm}, fails: "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"},
		"refused by the cluster": {configuration: cluster, given: []corev1.Toleration{onGPU},
			want: []corev1.Toleration{onGPU, onArm}, fails: "conflict with its cluster whitelist"},
		"all allowed": {configuration: cluster, annotations: map[string]string{allowedTolerationsAnnotation: ""},
			given: []corev1.Toleration{onGPU}, want: []corev1.Toleration{onGPU, onArm}},
		"included": {annotations: map[string]string{defaultTolerationsAnnotation: gpu},
			given: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(3))}, onGPU},
			want:  []corev1.Toleration{onGPU}},
		"no list": {annotations: map[string]string{defaultTolerationsAnnotation: "gpu"}, fails: "invalid character"},
	} {
		e := environmentOf([]runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: tc.annotations}}})
		plugin, err := newPodTolerations(e, []byte(tc.configuration))
		if tc.configuration == "" {
			plugin, err = newPodTolerations(e, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		pod := podWith(func(p *corev1.Pod) {
			p.Spec.Tolerations = tc.given
			if tc.cpu != "" {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(tc.cpu)}
			}
		})
		expect(t, name, admit(t, plugin, write{obj: pod, operation: tc.operation}), tc.fails)
		if diff := cmp.Diff(tc.want, pod.Spec.Tolerations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestConfigFile reads configurations in the file itself and in files next to it, and checks the errors.
func TestConfigFile(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("events.yaml", "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [{type: Server, qps: 1, burst: 1}]\n")
	const (
		head   = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
		events = `{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: `
	)
	for text, want := range map[string]string{
		head + "plugins: [{name: EventRateLimit, path: events.yaml}]": "",
		head: `couldn't init admission plugin "EventRateLimit": limits: Invalid value: null: must not be empty`,
		head + "plugins: [{name: EventRateLimit, path: missing.yaml}]":                                               "couldn't open admission plugin configuration",
		head + "plugins: [{name: EventRateLimit, configuration: {apiVersion: v1, kind: Pod}}]":                       `no kind "Pod" is registered for version "v1"`,
		head + "plugins: [{name: EventRateLimit, configuration: " + events + "[{type: Pod, qps: 1, burst: 1}]}}]":    `limits[0].type: Unsupported value: "Pod"`,
		head + "plugins: [{name: EventRateLimit, configuration: " + events + "[{type: User, qps: 1}]}}]":             "limits[0].burst: Invalid value: 0: must be positive",
		head + "plugins: [{name: EventRateLimit, path: events.yaml}, {name: PodSecurity, configuration: {x: true}}]": `couldn't init admission plugin "PodSecurity"`,
		head + "plugin: []":         `unknown field "plugin"`,
		"kind: Pod\napiVersion: v1": `no kind "Pod" is registered`,
	} {
		_, err := New(Options{Enable: []string{"EventRateLimit"}, ConfigFile: write("admission.yaml", text)}, environmentOf(nil))
		expect(t, text, err, want)
	}
	_, err := New(Options{ConfigFile: filepath.Join(directory, "none")}, environmentOf(nil))
	expect(t, "no file", err, "unable to read admission control configuration")
}
