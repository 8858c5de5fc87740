//go:build unix

package controlplane_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/admission"
	"flyball.dev/controlplane"
)

// roundSize is how many requests a server gets before it is the other one's turn.
const roundSize = 256

// BenchmarkAdmissionAndAccess compares the writes of two servers over HTTPS, in turns: one that has
// the default admission plugins and authorizes by RBAC, and one that has neither. It reports what the
// second needs in percent of the first, as the median of all rounds: of the time, which is how much of
// its rate a write keeps, and of the processor's time, client included, which depends less on what
// else the machine does.
func BenchmarkAdmissionAndAccess(b *testing.B) {
	enforcing := startPaired(b, controlplane.Options{})
	allowing := startPaired(b, controlplane.Options{AuthorizationMode: "AlwaysAllow",
		Admission: admission.Options{Disable: admission.Names()}})
	for i, v := range enforcing.verbs {
		b.Run(v.name, func(b *testing.B) {
			var times, processor []float64
			for first := 0; first < b.N; first += roundSize {
				n := min(roundSize, b.N-first)
				var with, without usage
				if len(times)%2 == 0 {
					with = enforcing.round(b, v, n)
					without = allowing.round(b, allowing.verbs[i], n)
				} else {
					without = allowing.round(b, allowing.verbs[i], n)
					with = enforcing.round(b, v, n)
				}
				times = append(times, 100*without.elapsed.Seconds()/with.elapsed.Seconds())
				processor = append(processor, 100*without.processor.Seconds()/with.processor.Seconds())
			}
			b.ReportMetric(median(times), "%")
			b.ReportMetric(median(processor), "cpu-%")
		})
	}
}

// pairedServer is one of two servers that are compared. Its verb create makes new pods, and delete
// removes pods that it has.
type pairedServer struct {
	verbs  []verb
	create func(ctx context.Context, n int) error
	made   int // the number of the next pod
}

// startPaired starts a server with the pods for its verbs. The client is a user with a role that allows all the
// requests.
func startPaired(b *testing.B, o controlplane.Options) *pairedServer {
	o.Listen, o.WithoutControllers = "127.0.0.1:0", true
	o.Tokens = map[string]*user.DefaultInfo{"secret": {Name: "ann", Groups: []string{"staff"}}}
	plane := controlplanetest.Start(b, o)
	controlplanetest.GrantCluster(b, controlplanetest.ClientFor(b, plane.Config()), "ann", "ann", controlplanetest.PolicyRule("*", "", "pods,pods/status"))
	cfg := rest.AnonymousClientConfig(overHTTPS(b, plane))
	cfg.BearerToken = "secret"
	pods := controlplanetest.ClientFor(b, cfg).CoreV1().Pods("default")
	s := &pairedServer{create: func(ctx context.Context, n int) error {
		_, err := pods.Create(ctx, controlplanetest.ExamplePod(n), metav1.CreateOptions{})
		return err
	}}
	s.verbs = append(podVerbs(pods, controlplanetest.ClientFor(b, asManager(cfg, "kubelet")).CoreV1().Pods("default")),
		verb{"create", false, s.create})
	s.round(b, s.verbs[len(s.verbs)-1], roundSize)
	return s
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
func (s *pairedServer) round(b *testing.B, v verb, n int) usage {
	first := 0
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
