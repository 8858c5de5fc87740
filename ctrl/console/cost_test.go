//go:build unix

package console

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// BenchmarkCost measures recording while nobody looks. An iteration is a block of four segments: with recording, without,
// without, and with, or the reverse. A segment is five reconciles of one worker; each reads five objects, writes three and logs a line.
// All segments are of one manager, because two managers differ by more, and the record is full from the start.
//
// The cost of a segment is CPU time of the process. Garbage is collected between the segments, and a segment pays for what it has
// allocated. A busy machine makes all segments more expensive, for moments: the median of the ratios of many short blocks bears that.
func BenchmarkCost(b *testing.B) {
	l := openLoad(b)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for i := range 20 {
		l.segment(b, i%2 == 0)
	}
	blocks := make([]block, b.N)
	b.ResetTimer()
	for i := range blocks {
		if i%collectAfter == 0 {
			l.collect(b)
		}
		first := i%2 == 0
		for _, recording := range []bool{first, !first, !first, first} {
			c := l.segment(b, recording)
			if recording {
				blocks[i].with.add(c)
			} else {
				blocks[i].without.add(c)
			}
		}
	}
	b.StopTimer()
	l.report(b, blocks)
}

// block is the cost of four segments.
type block struct{ with, without cost }

// cost is what segments, or collections of garbage, have used.
type cost struct {
	processor     time.Duration
	bytes, allocs uint64
}

func (c *cost) add(o cost) {
	c.processor += o.processor
	c.bytes += o.bytes
	c.allocs += o.allocs
}

func (c cost) minus(o cost) cost {
	return cost{c.processor - o.processor, c.bytes - o.bytes, c.allocs - o.allocs}
}

// used returns what the process has used.
func used(b *testing.B) cost {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	heap := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/allocs:objects"}}
	metrics.Read(heap)
	return cost{time.Duration(u.Utime.Nano() + u.Stime.Nano()), heap[0].Value.Uint64(), heap[1].Value.Uint64()}
}

const (
	segmentSize  = 5   // reconciles
	objects      = 200 // requests
	collectAfter = 25  // blocks
	noop         = "noop"
)

// load is an operator with one controller, which reconciles what it is sent.
type load struct {
	*shop
	requests chan event.GenericEvent
	done     chan struct{}
	// sent counts the requests, and reconciled is the reconciler's.
	sent, reconciled int
	// collections is the cost of all collections. Its bytes are the ones that could be reached afterwards.
	collections cost
}

// openLoad starts the operator, with a record that is full.
func openLoad(b *testing.B) *load {
	l := &load{requests: make(chan event.GenericEvent), done: make(chan struct{})}
	l.shop = open(b, shopOptions{workers: 1, change: func(o *manager.Options) { o.Development = new(false) }, more: func(mgr manager.Manager) error {
		return builder.ControllerManagedBy(mgr).Named("load").
			WatchesRawSource(source.Channel(l.requests, &handler.TypedEnqueueRequestForObject[client.Object]{})).Complete(l)
	}})
	all := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "load"}}, configMapOf("shared"), &corev1.ServiceAccount{ObjectMeta: named("shared")}}
	for i := range objects {
		name := nameOf(i)
		all = append(all, configMapOf(name), secretOf(name), serviceOf(name))
	}
	for _, obj := range all {
		if err := l.client.Create(b.Context(), obj); err != nil {
			b.Fatal(err)
		}
	}
	l.fill()
	return l
}

func nameOf(i int) string { return fmt.Sprint("load-", i) }

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "load", Name: name} }

func configMapOf(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: named(name), Data: map[string]string{"motto": "quality"}}
}

func secretOf(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: named(name), Data: map[string][]byte{"password": []byte(password)}}
}

func serviceOf(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}}}
}

// fill records reconciles until the first is forgotten.
func (l *load) fill() {
	h := &history{Console: l.console, client: l.console.recorder.Client(&fakeClient{}, client.Options{})}
	w := h.worker("before")
	for forgotten := uint64(0); forgotten == 0; _, forgotten = h.recorder.Forgotten() {
		h.run(w, eventOf(cause.Updated, "x", "u", "1"), func(ctx context.Context) {
			for range 3 {
				_ = h.client.Update(ctx, configMap("x", "u"))
			}
		})
	}
}

// Reconcile implements reconcile.Reconciler.
func (l *load) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer func() { l.done <- struct{}{} }()
	if req.Name == noop {
		return reconcile.Result{}, nil
	}
	l.reconciled++
	c, shared := l.mgr.GetClient(), types.NamespacedName{Namespace: req.Namespace, Name: "shared"}
	cm, secret, service := &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}
	for _, read := range []struct {
		key types.NamespacedName
		obj client.Object
	}{{req.NamespacedName, cm}, {req.NamespacedName, secret}, {req.NamespacedName, service}, {shared, &corev1.ConfigMap{}}, {shared, &corev1.ServiceAccount{}}} {
		if err := c.Get(ctx, read.key, read.obj); err != nil {
			return reconcile.Result{}, err
		}
	}
	motto := fmt.Sprint("m", l.reconciled)
	cm.Data["motto"] = motto
	before := client.MergeFrom(service.DeepCopy())
	metav1.SetMetaDataLabel(&service.ObjectMeta, "motto", motto)
	secret.Data["motto"] = []byte(motto)
	err := errors.Join(c.Update(ctx, cm), c.Patch(ctx, service, before), c.Update(ctx, secret))
	log.FromContext(ctx).Info("The site is up", "service", service, "motto", motto)
	return reconcile.Result{}, err
}

// segment has reconciles run, with or without recording.
func (l *load) segment(b *testing.B, recording bool) cost {
	l.console.recorder.SetRecording(recording)
	before := used(b)
	for range segmentSize {
		l.sent++
		l.send(nameOf(l.sent % objects))
	}
	l.console.recorder.SetRecording(false)
	l.send(noop) // when it begins, the worker has recorded the ones before
	return used(b).minus(before)
}

// send has the controller reconcile a request, and returns when the reconciler is about to return.
func (l *load) send(name string) {
	l.requests <- event.GenericEvent{Object: configMapOf(name)}
	<-l.done
}

// collect collects the garbage.
func (l *load) collect(b *testing.B) {
	l.idle(b)
	before := used(b)
	runtime.GC()
	collection := used(b).minus(before)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	l.collections.add(cost{processor: collection.processor, bytes: live[0].Value.Uint64()})
}

// report reports the median of the ratios of the blocks with its 95 % confidence interval, and what recording adds to a reconcile.
func (l *load) report(b *testing.B, blocks []block) {
	// By default, there is a collection whenever as many bytes are allocated as could be reached after the last one.
	perByte := l.collections.processor.Seconds() / float64(l.collections.bytes)
	total := func(c cost) float64 { return c.processor.Seconds() + float64(c.bytes)*perByte }
	var ratios, times []float64
	var all block
	for _, k := range blocks {
		ratios = append(ratios, total(k.with)/total(k.without))
		times = append(times, total(k.with)-total(k.without))
		all.with.add(k.with)
		all.without.add(k.without)
	}
	reconciles := float64(2 * segmentSize)
	low, median, high := interval(ratios)
	b.ReportMetric(low, "low-on/off")
	b.ReportMetric(median, "on/off")
	b.ReportMetric(high, "high-on/off")
	_, more, _ := interval(times)
	b.ReportMetric(more/reconciles*1e6, "more-µs/reconcile")
	reconciles *= float64(len(blocks))
	b.ReportMetric(total(all.without)/reconciles*1e6, "µs/reconcile")
	b.ReportMetric((float64(all.with.bytes)-float64(all.without.bytes))/reconciles, "more-B/reconcile")
	b.ReportMetric((float64(all.with.allocs)-float64(all.without.allocs))/reconciles, "more-allocs/reconcile")
	b.ReportMetric(float64(all.without.bytes)/reconciles, "B/reconcile")
}

// interval returns the median of values and the bounds of its 95 % confidence interval. The number of values below the true median
// is binomial, whatever their distribution is.
func interval(values []float64) (low, median, high float64) {
	slices.Sort(values)
	n := len(values)
	rank := max(int(float64(n)/2-0.98*math.Sqrt(float64(n))), 1)
	return values[rank-1], (values[(n-1)/2] + values[n/2]) / 2, values[n-rank]
}
