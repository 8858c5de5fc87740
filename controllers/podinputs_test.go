package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

// createPod creates a pod in the namespace default, with a specification in YAML.
func (e env) createPod(name, spec string) {
	e.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	e.must(yaml.UnmarshalStrict([]byte(spec), &pod.Spec))
	e.create(pod)
}

// states returns the phase of a pod, and the states of its containers.
func (e env) states(name string) string {
	e.Helper()
	p := e.pod(name)
	list := []string{string(p.Status.Phase)}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
		state := "Running"
		switch {
		case c.State.Waiting != nil:
			state = strings.TrimSuffix(c.State.Waiting.Reason+" "+c.State.Waiting.Message, " ")
		case c.State.Terminated != nil:
			state = c.State.Terminated.Reason
		}
		list = append(list, state)
	}
	return strings.Join(list, ", ")
}

// wantStates checks the states of a pod.
func (e env) wantStates(name, want string) {
	e.Helper()
	if got := e.states(name); got != want {
		e.Errorf("the pod %s is %s; want %s", name, got, want)
	}
}

// wantEvent checks that a pod has an event of a type and a reason with a message that begins with the given words.
func (e env) wantEvent(pod, of, message string) {
	e.Helper()
	events := e.events("Pod", pod)
	if !slices.ContainsFunc(events, func(event string) bool {
		return strings.HasPrefix(event, of+" ") && strings.Contains(event, ": "+message)
	}) {
		e.Errorf("%s: %s is missing in the events %q", of, message, events)
	}
}

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
			inVirtualTime(t, controllers.Options{}, func(e env) {
				e.createPod(name, tc.spec)
				e.waitIdle()
				e.wantStates(name, tc.waits)
				if tc.event != "" {
					e.wantEvent(name, tc.of, tc.event)
				}
				configMap, secret := data("x", "k")
				if tc.key {
					configMap.Data, secret.StringData = nil, nil
				}
				e.create(configMap, secret)
				e.waitIdle()
				if tc.key {
					e.wantEvent(name, tc.of, tc.other)
					configMap.BinaryData, secret.StringData = map[string][]byte{"k": []byte("v")}, map[string]string{"k": "v"}
					if strings.Contains(tc.spec, "env") {
						configMap.BinaryData, configMap.Data = nil, map[string]string{"k": "v"}
					}
					e.must(e.Update(e.Context(), configMap))
					e.must(e.Update(e.Context(), secret))
					e.waitIdle()
				}
				if p := e.pod(name); !podstate.Ready(p) {
					t.Errorf("the pod is not ready: %s", e.states(name))
				}
				e.must(e.Delete(e.Context(), configMap))
				e.waitIdle()
				if p := e.pod(name); !podstate.Ready(p) {
					t.Errorf("when the ConfigMap is deleted, the pod is not ready: %s", e.states(name))
				}
			})
		})
	}
}

// TestEphemeralVolumes: the claim of an ephemeral volume is created, owned by its pod, which waits for
// it, and for the end of a claim of that name that is another's.
func TestEphemeralVolumes(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		const spec = `{containers: [{name: c, image: c}], volumes: [{name: data, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}, annotations: {c: d}},
			spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]}`
		e.createPod("p", spec)
		e.waitIdle()
		claim := &corev1.PersistentVolumeClaim{}
		e.must(e.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "p-data"}, claim))
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; !metav1.IsControlledBy(claim, e.pod("p")) || claim.Labels["a"] != "b" ||
			claim.Annotations["c"] != "d" || size.String() != "1Gi" || claim.Status.Phase != corev1.ClaimBound {
			t.Errorf("the claim is %+v", claim)
		}
		e.wantStates("p", "Running, Running")
		e.must(e.Delete(e.Context(), e.pod("p")))
		e.waitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
			t.Errorf("the claim of a deleted pod: %v", err)
		}

		foreign := newClaim("q-data", "1Gi", "none")
		foreign.Namespace = "default"
		e.create(foreign)
		e.createPod("q", spec)
		e.waitIdle()
		const conflict = "PVC default/q-data was not created for pod default/q (pod is not owner)"
		if c := podstate.Condition(e.pod("q"), corev1.PodScheduled); c == nil || !strings.Contains(c.Message, conflict) {
			t.Errorf("with a claim of another, the condition is %+v", c)
		}
		e.wantEvent("q", "Warning FailedBinding", "ephemeral volume data: "+conflict)
		e.must(e.Delete(e.Context(), foreign))
		e.waitIdle()
		e.wantStates("q", "Running, Running")
	})
}

// TestActiveDeadline: a pod fails when its active deadline has passed.
func TestActiveDeadline(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.createPod("runs", `{activeDeadlineSeconds: 60, containers: [{name: c, image: c}]}`)
		e.createPod("waits", `{activeDeadlineSeconds: 60, containers: [{name: c, image: "c:404"}]}`)
		e.createPod("late", `{containers: [{name: c, image: c}]}`)
		e.waitIdle()
		e.wantStates("runs", "Running, Running")
		late := e.pod("late")
		late.Spec.ActiveDeadlineSeconds = new(int64(100))
		e.must(e.Update(e.Context(), late))
		time.Sleep(time.Minute) // virtual
		e.waitIdle()
		e.wantStates("runs", "Failed, Error")
		e.wantStates("waits", "Failed, ContainerStatusUnknown")
		e.wantStates("late", "Running, Running")
		p := e.pod("runs")
		if p.Status.Reason != "DeadlineExceeded" || p.Status.Message != "Pod was active on the node longer than the specified deadline" || podstate.Ready(p) {
			t.Errorf("the status is %+v", p.Status)
		}
		e.wantEvent("runs", "Normal DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
		time.Sleep(time.Minute) // virtual
		e.waitIdle()
		e.wantStates("late", "Failed, Error")
	})
}

// TestTaintEviction: pods are deleted from a node with a taint NoExecute that they do not tolerate, at
// once or after the time for which they do.
func TestTaintEviction(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		taint := func(taints ...corev1.Taint) {
			node := &corev1.Node{}
			e.must(e.Get(e.Context(), client.ObjectKey{Name: pods.NodeName}, node))
			node.Spec.Taints = taints
			e.must(e.Update(e.Context(), node))
			e.waitIdle()
		}
		tolerating := func(seconds string) string {
			return `{containers: [{name: c, image: c}], tolerations: [{key: a, operator: Exists, effect: NoExecute` + seconds + `}]}`
		}
		e.createPod("none", `{containers: [{name: c, image: c}]}`)
		e.createPod("forever", tolerating(""))
		e.createPod("minute", tolerating(", tolerationSeconds: 60"))
		e.createPod("zero", tolerating(", tolerationSeconds: 0"))
		e.createPod("hour", tolerating(", tolerationSeconds: 3600"))
		e.waitIdle()
		taint(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule})
		e.wantPodNames("forever", "hour", "minute", "none", "zero")
		taint(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})
		e.wantPodNames("forever", "hour", "minute")
		e.wantEvent("none", "Normal TaintManagerEviction", "Marking for deletion Pod default/none")
		time.Sleep(40 * time.Second) // virtual
		e.wantPodNames("forever", "hour", "minute")
		e.waitIdle()
		e.wantPodNames("forever", "hour")

		bound := podOn(pods.NodeName, "default", "late")
		e.create(bound)
		e.waitIdle()
		e.wantPodNames("forever", "hour")
		taint()
		e.wantEvent("hour", "Normal TaintManagerEviction", "Cancelling deletion of Pod default/hour")
		time.Sleep(2 * time.Hour) // virtual
		e.wantPodNames("forever", "hour")
	})
}

// TestResize checks that a resize of a pod appears in its status, and restarts containers according to their resize
// policy.
func TestResize(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.createPod("p", `{containers: [{name: c, image: c, resources: {requests: {cpu: 1}}},
			{name: d, image: d, resources: {requests: {cpu: 1, memory: 1Gi}}, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]}]}`)
		e.waitIdle()
		resize := func(cpu, memory string) *corev1.Pod {
			p := e.pod("p")
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
			p.Spec.Containers[1].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(memory)
			e.must(e.SubResource("resize").Update(e.Context(), p))
			e.waitIdle()
			return e.pod("p")
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
		check(e.pod("p"), "1", "1Gi", 0)
		check(resize("2", "1Gi"), "2", "1Gi", 0)
		check(resize("2", "2Gi"), "2", "2Gi", 1)
		e.wantEvent("p", "Normal ResizeCompleted", `Pod resize completed: {"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}`)
	})
}

// TestEphemeralContainers: an ephemeral container runs as soon as it is added.
func TestEphemeralContainers(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.createPod("p", `{containers: [{name: c, image: c}]}`)
		e.waitIdle()
		p := e.pod("p")
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
		e.must(e.SubResource("ephemeralcontainers").Update(e.Context(), p))
		e.waitIdle()
		e.wantStates("p", "Running, Running, Running")
		if p := e.pod("p"); !podstate.Ready(p) || p.Status.EphemeralContainerStatuses[0].Name != "debug" {
			t.Errorf("the status is %+v", p.Status)
		}
	})
}
