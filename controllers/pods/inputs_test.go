package pods_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controlplane/controllerstest"
)

func data(name, key string) (*corev1.ConfigMap, *corev1.Secret) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: name}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{key: "v"}}, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{key: "v"}}
}

// TestMissingReferences: a pod waits for the ConfigMaps and Secrets that its volumes and the variables
// of its containers refer to, in the states that kubelet reports, and starts when they appear.
func TestMissingReferences(t *testing.T) {
	const creating, running = "Pending, ContainerCreating", "Running, Running"
	volume := func(source string) string {
		return `{volumes: [{name: v, ` + source + `}], containers: [{name: c, image: c, volumeMounts: [{name: v, mountPath: /v}]}]}`
	}
	container := func(field string) string { return `{containers: [{name: c, image: c, ` + field + `}]}` }
	for name, tc := range map[string]struct {
		spec  string
		waits string // the states without the objects, or with objects without the key
		of    string // the type and the reason of the events
		event string
		key   bool // an object without the key is not enough
		other string
	}{
		"config-map":           {spec: volume(`configMap: {name: x}`), waits: creating, of: "Warning FailedMount", event: `MountVolume.SetUp failed for volume "v" : configmap "x" not found`},
		"secret":               {spec: volume(`secret: {secretName: x}`), waits: creating, of: "Warning FailedMount", event: `MountVolume.SetUp failed for volume "v" : secret "x" not found`},
		"items":                {spec: volume(`configMap: {name: x, items: [{key: k, path: p}]}`), waits: creating, key: true, of: "Warning FailedMount", event: `MountVolume.SetUp failed for volume "v" : configmap "x" not found`, other: `MountVolume.SetUp failed for volume "v" : references non-existent config key: k`},
		"projected":            {spec: volume(`projected: {sources: [{secret: {name: x}}, {configMap: {name: x}}]}`), waits: creating, of: "Warning FailedMount", event: `MountVolume.SetUp failed for volume "v" : [secret "x" not found, configmap "x" not found]`},
		"optional-volume":      {spec: volume(`projected: {sources: [{secret: {name: x, optional: true, items: [{key: k, path: p}]}}, {configMap: {name: x, optional: true}}]}`), waits: running},
		"volume-without-mount": {spec: `{volumes: [{name: v, secret: {secretName: x}}], containers: [{name: c, image: c}]}`, waits: running},
		"env-from":             {spec: container(`envFrom: [{secretRef: {name: x}}]`), waits: `Pending, CreateContainerConfigError secret "x" not found`, of: "Warning Failed", event: `Error: secret "x" not found`},
		"optional-env-from":    {spec: container(`envFrom: [{secretRef: {name: x, optional: true}}, {configMapRef: {name: x, optional: true}}]`), waits: running},
		"env":                  {spec: container(`env: [{name: A, valueFrom: {configMapKeyRef: {name: x, key: k}}}]`), waits: `Pending, CreateContainerConfigError configmap "x" not found`, key: true, of: "Warning Failed", event: `Error: configmap "x" not found`, other: `Error: couldn't find key k in ConfigMap default/x`},
		"env-of-secret":        {spec: container(`env: [{name: A, valueFrom: {secretKeyRef: {name: x, key: k}}}]`), waits: `Pending, CreateContainerConfigError secret "x" not found`, key: true, of: "Warning Failed", event: `Error: secret "x" not found`, other: `Error: couldn't find key k in Secret default/x`},
		"optional-env":         {spec: container(`env: [{name: A, valueFrom: {configMapKeyRef: {name: x, key: k, optional: true}}}]`), waits: running},
		"one-of-two":           {spec: `{containers: [{name: c, image: c}, {name: d, image: d, envFrom: [{configMapRef: {name: x}}]}]}`, waits: `Pending, Running, CreateContainerConfigError configmap "x" not found`, of: "Warning Failed", event: `Error: configmap "x" not found`},
		"init-container":       {spec: `{initContainers: [{name: i, image: i, envFrom: [{configMapRef: {name: x}}]}], containers: [{name: c, image: c}]}`, waits: `Pending, CreateContainerConfigError configmap "x" not found, PodInitializing`, of: "Warning Failed", event: `Error: configmap "x" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
				e.CreatePod(name, tc.spec)
				e.WaitIdle()
				e.WantStates(name, tc.waits)
				if tc.event != "" {
					e.WantEvent(name, tc.of, tc.event)
				}
				configMap, secret := data("x", "k")
				if tc.key {
					configMap.Data, secret.StringData = nil, nil
				}
				e.CreateAll(configMap, secret)
				e.WaitIdle()
				if tc.key {
					e.WantEvent(name, tc.of, tc.other)
					configMap.BinaryData, secret.StringData = map[string][]byte{"k": []byte("v")}, map[string]string{"k": "v"}
					if strings.Contains(tc.spec, "env") {
						configMap.BinaryData, configMap.Data = nil, map[string]string{"k": "v"}
					}
					e.Must(e.Update(e.Context(), configMap))
					e.Must(e.Update(e.Context(), secret))
					e.WaitIdle()
				}
				if p := e.Pod(name); !podstate.Ready(p) {
					t.Errorf("the pod is not ready: %s", e.States(name))
				}
				e.Must(e.Delete(e.Context(), configMap))
				e.WaitIdle()
				if p := e.Pod(name); !podstate.Ready(p) {
					t.Errorf("when the ConfigMap is deleted, the pod is not ready: %s", e.States(name))
				}
			})
		})
	}
}

// TestActiveDeadline: a pod fails when its active deadline has passed.
func TestActiveDeadline(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreatePod("runs", `{activeDeadlineSeconds: 60, containers: [{name: c, image: c}]}`)
		e.CreatePod("waits", `{activeDeadlineSeconds: 60, containers: [{name: c, image: "c:404"}]}`)
		e.CreatePod("late", `{containers: [{name: c, image: c}]}`)
		e.WaitIdle()
		e.WantStates("runs", "Running, Running")
		late := e.Pod("late")
		late.Spec.ActiveDeadlineSeconds = new(int64(100))
		e.Must(e.Update(e.Context(), late))
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		e.WantStates("runs", "Failed, Error")
		e.WantStates("waits", "Failed, ContainerStatusUnknown")
		e.WantStates("late", "Running, Running")
		p := e.Pod("runs")
		if p.Status.Reason != "DeadlineExceeded" || p.Status.Message != "Pod was active on the node longer than the specified deadline" || podstate.Ready(p) {
			t.Errorf("the status is %+v", p.Status)
		}
		e.WantEvent("runs", "Normal DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		e.WantStates("late", "Failed, Error")
	})
}

// TestResize checks that a resize of a pod appears in its status, and restarts containers according to their resize
// policy.
func TestResize(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreatePod("p", `{containers: [{name: c, image: c, resources: {requests: {cpu: 1}}},
			{name: d, image: d, resources: {requests: {cpu: 1, memory: 1Gi}}, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]}]}`)
		e.WaitIdle()
		resize := func(cpu, memory string) *corev1.Pod {
			p := e.Pod("p")
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
			p.Spec.Containers[1].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(memory)
			e.Must(e.SubResource("resize").Update(e.Context(), p))
			e.WaitIdle()
			return e.Pod("p")
		}
		check := func(p *corev1.Pod, cpu, memory string, restarts int32) {
			t.Helper()
			c, d := p.Status.ContainerStatuses[0], p.Status.ContainerStatuses[1]
			if c.Resources == nil || d.Resources == nil {
				t.Fatalf("there are no resources in %+v", p.Status)
			}
			if !c.Resources.Requests.Cpu().Equal(resource.MustParse(cpu)) || !c.AllocatedResources.Cpu().Equal(resource.MustParse(cpu)) ||
				!d.Resources.Requests.Memory().Equal(resource.MustParse(memory)) || c.RestartCount != 0 || d.RestartCount != restarts ||
				p.Status.ObservedGeneration != p.Generation || !podstate.Ready(p) {
				t.Errorf("the status is %+v", p.Status)
			}
		}
		check(e.Pod("p"), "1", "1Gi", 0)
		check(resize("2", "1Gi"), "2", "1Gi", 0)
		check(resize("2", "2Gi"), "2", "2Gi", 1)
		e.WantEvent("p", "Normal ResizeCompleted", `Pod resize completed: {"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}`)
	})
}

// TestEphemeralContainers: an ephemeral container runs as soon as it is added.
func TestEphemeralContainers(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreatePod("p", `{containers: [{name: c, image: c}]}`)
		e.WaitIdle()
		p := e.Pod("p")
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
		e.Must(e.SubResource("ephemeralcontainers").Update(e.Context(), p))
		e.WaitIdle()
		e.WantStates("p", "Running, Running, Running")
		if p := e.Pod("p"); !podstate.Ready(p) || p.Status.EphemeralContainerStatuses[0].Name != "debug" {
			t.Errorf("the status is %+v", p.Status)
		}

		e.CreatePod("q", `{initContainers: [{name: i, image: i, command: [sleep, infinity]}], containers: [{name: c, image: c}]}`)
		e.WaitIdle()
		p = e.Pod("q")
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
		e.Must(e.SubResource("ephemeralcontainers").Update(e.Context(), p))
		e.WaitIdle()
		if s := e.Pod("q").Status; s.EphemeralContainerStatuses[0].State.Running == nil || s.ContainerStatuses[0].State.Waiting == nil {
			t.Errorf("before the init container has completed: %+v", s)
		}
	})
}

// TestUnboundClaim: a pod on a node waits until its claim is bound.
func TestUnboundClaim(t *testing.T) {
	o := controllers.Options{Without: []string{"local-path-provisioner", "persistentvolume-binder-controller"}}
	controllerstest.InVirtualTime(t, o, func(e controllerstest.Env) {
		claim := controllerstest.Claim("data", "1Gi", "local")
		e.CreateAll(claim)
		e.CreatePod("p", `{nodeName: flyball, volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: c, image: c}]}`)
		e.WaitIdle()
		e.WantStates("p", "Pending, ContainerCreating")
		claim.Status.Phase = corev1.ClaimBound
		e.Must(e.Status().Update(e.Context(), claim))
		e.WaitIdle()
		e.WantStates("p", "Running, Running")
	})
}
