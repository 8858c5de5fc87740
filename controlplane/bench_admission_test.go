//go:build unix

package controlplane_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
const roundSize = 256

// BenchmarkAdmissionAndAccess compares the writes of two servers, in turns: one with the default admission plugins and RBAC,
// and one that has neither. The client is in the process, or connects over HTTPS. The benchmark reports the cost of the second
// server in percent of the cost of the first, as the median of all rounds: by elapsed time (%), and by CPU time (cpu-%), which
// includes the client and depends less on the load of the machine. low-% and high-% are the quartiles of the CPU time. No write
// should lose more than a tenth:
//
//	go test -run - -bench AdmissionAndAccess -benchtime 8192x ./controlplane
func BenchmarkAdmissionAndAccess(b *testing.B) {
	for name, config := range map[string]func(*testing.B, *controlplane.ControlPlane) *rest.Config{
		"in-process": func(_ *testing.B, c *controlplane.ControlPlane) *rest.Config { return c.Config() },
		"https":      overHTTPS,
	} {
		b.Run(name, func(b *testing.B) {
			enforcing := startPaired(b, config, controlplane.Options{})
			allowing := startPaired(b, config, controlplane.Options{AuthorizationMode: "AlwaysAllow",
				Admission: admission.Options{Disable: admission.Names()}})
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
	var times, processor []float64
	for first := 0; first < b.N; first += roundSize {
		n := min(roundSize, b.N-first)
		var with, without usage
		if len(times)%2 == 0 {
			with = enforcing.round(b, verb, n)
			without = allowing.round(b, verb, n)
		} else {
			without = allowing.round(b, verb, n)
			with = enforcing.round(b, verb, n)
		}
		times = append(times, 100*without.elapsed.Seconds()/with.elapsed.Seconds())
		processor = append(processor, 100*without.processor.Seconds()/with.processor.Seconds())
	}
	b.ReportMetric(median(times), "%")
	b.ReportMetric(median(processor), "cpu-%") // sorts
	b.ReportMetric(processor[len(processor)/4], "low-%")
	b.ReportMetric(processor[len(processor)*3/4], "high-%")
}

// pairedKind is a kind of objects on one of two servers that are compared. Its verb create makes new objects, and delete
// removes objects that round has created before.
type pairedKind struct {
	kind   string
	verbs  []verb
	create func(ctx context.Context, n int) error
	made   int // the number of the next object
}

// startPaired starts a server with the objects for its verbs. The client is a user with a role that allows all the requests.
func startPaired(b *testing.B, config func(*testing.B, *controlplane.ControlPlane) *rest.Config, o controlplane.Options) []*pairedKind {
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
				_, err := pods.Create(ctx, controlplanetest.ExamplePod(n), metav1.CreateOptions{})
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
		k.verbs = append(k.verbs, verb{"create", false, k.create})
		k.round(b, len(k.verbs)-1, roundSize)
	}
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

// usage is the elapsed time and the CPU time of requests.
type usage struct{ elapsed, processor time.Duration }

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// processorTime returns the processor's time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// round returns the usage of 8 writers for n requests.
func (s *pairedKind) round(b *testing.B, verb, n int) usage {
	v, first := s.verbs[verb], 0
	if v.removes || v.name == "create" {
		first = s.made
		s.made += n
	}
	if v.removes {
		inParallel(b, n, func(i int) error { return s.create(b.Context(), first+i) })
	}
	start, used := time.Now(), processorTime(b)
	inParallel(b, n, func(i int) error { return v.call(b.Context(), first+i) })
	return usage{time.Since(start), processorTime(b) - used}
}

// inParallel calls a function with 0 to n-1 from 8 goroutines.
func inParallel(b *testing.B, n int, call func(i int) error) {
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := call(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}
