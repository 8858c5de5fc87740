//go:build unix

package controlplane_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/admission"
	"flyball.dev/controlplane"
)

// roundSize is how many requests a server gets before it is the other one's turn.
const roundSize = 16

// BenchmarkAdmissionAndAccess compares the writes of two servers, in turns of a few requests: one with the default admission
// plugins and RBAC, and one that has neither. The client is in the process, or connects over HTTPS. The benchmark reports the
// CPU time of the second server's requests in percent of the first server's (cpu-%), as the quotient of the medians of all
// turns, with the bounds between which 95 % of resampled quotients are (low-%, high-%). The CPU time includes the client's.
// Other programs still matter, since they evict both servers from the caches of the processor, and the server with more code
// loses more. alloc-% is the same for allocated bytes. Creates need about 24000 requests for narrow bounds, because the collection of
// garbage grows with the objects. No write should lose more than a tenth:
//
//	go test -run - -bench AdmissionAndAccess -benchtime 4096x ./controlplane
//
// The objects on both servers are equal: the pods have the fields that plugins add, but for the verb create-bare.
func BenchmarkAdmissionAndAccess(b *testing.B) {
	for name, config := range map[string]func(*testing.B, *controlplane.ControlPlane) *rest.Config{
		"in-process": func(_ *testing.B, c *controlplane.ControlPlane) *rest.Config { return c.Config() },
		"https":      overHTTPS,
	} {
		b.Run(name, func(b *testing.B) {
			enforcing := startPaired(b, "enforcing", config, controlplane.Options{})
			allowing := startPaired(b, "allowing", config, controlplane.Options{
				AuthorizationMode: "AlwaysAllow", Admission: admission.Options{Disable: admission.Names()}})
			for k := range enforcing {
				for i, v := range enforcing[k].verbs {
					b.Run(enforcing[k].kind+"/"+v.name, func(b *testing.B) { comparePaired(b, enforcing[k], allowing[k], i) })
				}
			}
		})
	}
}

// comparePaired compares a verb of two servers.
func comparePaired(b *testing.B, enforcing, allowing *pairedKind, verb int) {
	var with, without []usage
	for first := 0; first < b.N; first += roundSize {
		n := min(roundSize, b.N-first)
		if len(with)%2 == 0 {
			with = append(with, enforcing.round(b, verb, n))
			without = append(without, allowing.round(b, verb, n))
		} else {
			without = append(without, allowing.round(b, verb, n))
			with = append(with, enforcing.round(b, verb, n))
		}
	}
	share := func(of func(usage) float64, pick func(n, i int) int) float64 {
		value := func(turns []usage) float64 {
			values := make([]float64, len(turns))
			for i := range values {
				values[i] = of(turns[pick(len(turns), i)])
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		return 100 * value(without) / value(with)
	}
	processor := func(u usage) float64 { return u.processor.Seconds() }
	each := func(_, i int) int { return i }
	var resampled []float64
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		resampled = append(resampled, share(processor, func(n, _ int) int { return random.IntN(n) }))
	}
	slices.Sort(resampled)
	b.ReportMetric(share(processor, each), "cpu-%")
	b.ReportMetric(resampled[10], "low-%")
	b.ReportMetric(resampled[389], "high-%")
	b.ReportMetric(share(func(u usage) float64 { return float64(u.bytes) }, each), "alloc-%")
}

// pairedKind is a kind of objects on one of two servers that are compared. Its verb create makes new objects, and delete
// removes objects that round has created before.
type pairedKind struct {
	server string // the label "server" in profiles
	kind   string
	verbs  []verb
	create func(ctx context.Context, n int) error
	made   int // the number of the next object
}

// startPaired starts a server with the objects for its verbs. The client is a user with a role that allows all the requests.
func startPaired(b *testing.B, name string, config func(*testing.B, *controlplane.ControlPlane) *rest.Config,
	o controlplane.Options) []*pairedKind {
	o.Listen, o.WithoutControllers = "127.0.0.1:0", true
	o.Tokens = map[string]*user.DefaultInfo{"secret": {Name: "ann", Groups: []string{"staff"}}}
	plane := controlplanetest.Start(b, o)
	controlplanetest.GrantCluster(b, controlplanetest.ClientFor(b, plane.Config()), "ann", "ann",
		controlplanetest.PolicyRule("*", "", "pods,pods/status,configmaps"))
	cfg := config(b, plane)
	if cfg.Transport == nil {
		cfg = rest.AnonymousClientConfig(cfg)
	}
	cfg.BearerToken = "secret"
	core := controlplanetest.ClientFor(b, cfg).CoreV1()
	pods, configMaps := core.Pods("default"), core.ConfigMaps("default")
	kinds := []*pairedKind{
		{
			kind:  "pods",
			verbs: podVerbs(pods, controlplanetest.ClientFor(b, asManager(cfg, "kubelet")).CoreV1().Pods("default")),
			create: func(ctx context.Context, n int) error {
				_, err := pods.Create(ctx, completePod(n), metav1.CreateOptions{})
				return err
			},
		},
		{
			kind:  "configmaps",
			verbs: configMapVerbs(configMaps),
			create: func(ctx context.Context, n int) error {
				_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMapName(n)},
					Data: map[string]string{"a": "1", "b": "2"}}, metav1.CreateOptions{})
				return err
			},
		},
	}
	for _, k := range kinds {
		k.server = name
		k.verbs = append(k.verbs, verb{"create", false, k.create})
		k.round(b, len(k.verbs)-1, roundSize)
	}
	kinds[0].verbs = append(kinds[0].verbs, verb{"create-bare", false, func(ctx context.Context, n int) error {
		_, err := pods.Create(ctx, controlplanetest.ExamplePod(n), metav1.CreateOptions{})
		return err
	}})
	return kinds
}

func configMapName(n int) string { return fmt.Sprintf("map-%d", n) }

func configMapVerbs(configMaps typedcorev1.ConfigMapInterface) []verb {
	return []verb{
		{"merge-patch", false, func(ctx context.Context, n int) error {
			_, err := configMaps.Patch(ctx, configMapName(n), types.MergePatchType, fmt.Appendf(nil, `{"data":{"a":"%p"}}`, &n), metav1.PatchOptions{})
			return err
		}},
		{"update", false, func(ctx context.Context, n int) error {
			c, err := configMaps.Get(ctx, configMapName(n), metav1.GetOptions{})
			if err == nil {
				c.Data["a"] = fmt.Sprintf("%p", &n)
				_, err = configMaps.Update(ctx, c, metav1.UpdateOptions{})
			}
			return err
		}},
		{"apply", false, func(ctx context.Context, n int) error {
			c := applycorev1.ConfigMap(configMapName(n), "default").WithData(map[string]string{"c": fmt.Sprintf("%p", &n)})
			_, err := configMaps.Apply(ctx, c, metav1.ApplyOptions{FieldManager: "applier", Force: true})
			return err
		}},
		{"delete", true, func(ctx context.Context, n int) error {
			return configMaps.Delete(ctx, configMapName(n), metav1.DeleteOptions{})
		}},
	}
}

// usage is the CPU time and the allocated bytes of requests.
type usage struct {
	processor time.Duration
	bytes     uint64
}

// processorTime returns the processor's time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allocatedBytes returns how many bytes this process has allocated.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// round returns the usage of n requests, one after the other. Several writers would spin for each other's locks.
func (s *pairedKind) round(b *testing.B, verb, n int) usage {
	v, first := s.verbs[verb], 0
	if v.removes || strings.HasPrefix(v.name, "create") {
		first = s.made
		s.made += n
	}
	call := func(call func(ctx context.Context, n int) error) {
		for i := range n {
			if err := call(b.Context(), first+i); err != nil {
				b.Fatal(err)
			}
		}
	}
	if v.removes {
		call(s.create)
	}
	used, bytes := processorTime(b), allocatedBytes()
	pprof.Do(b.Context(), pprof.Labels("server", s.server), func(context.Context) { call(v.call) })
	return usage{processorTime(b) - used, allocatedBytes() - bytes}
}

// completePod returns a pod that has all fields that the default admission plugins set.
func completePod(n int) *corev1.Pod {
	pod := controlplanetest.ExamplePod(n)
	pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = "default", new(false)
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = new(int32(0)), new(corev1.PreemptLowerPriority)
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))})
	}
	return pod
}
