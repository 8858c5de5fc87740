package kubelet

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/internal/kubelettest"
	"flyball.dev/internal/testlevel"
)

var (
	recording = flag.Bool("record", false, "write the recording anew")
	verbose   = flag.Bool("kubelet-log", false, "show the log of the kubelet")
)

// recorded is the file of the recording.
const recorded = "../../../internal/kubelettest/recorded.txt"

// atOnce is how many pods run at the same time. With more, the statuses of the kubelet are late.
const atOnce = 30

// attempts is how often the pods run at most.
const attempts = 3

// TestKubelet compares what a kubelet does with the recording. A difference that does not occur each time is chance: the kubelet looks at
// the containers once a second, and a busy machine makes it late.
func TestKubelet(t *testing.T) {
	testlevel.NeedsFull(t, "runs a kubelet for a minute")
	cases, err := kubelettest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	o := start(t)
	if *recording {
		text := kubelettest.Format(o.playAll(t, cases))
		if err := os.WriteFile(recorded, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := kubelettest.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for attempt := range attempts {
		got := o.playAll(t, cases)
		differs := false
		for _, c := range cases {
			if want[c.Name] == nil {
				t.Fatalf("%s is not recorded", c.Name)
			}
			lines := kubelettest.Compare(want[c.Name], got[c.Name])
			slices.Sort(lines)
			for _, line := range slices.Compact(lines) {
				line = c.Name + ": " + line
				seen[line]++
				differs = differs || seen[line] == attempt+1
			}
		}
		if !differs {
			return
		}
	}
	for _, line := range slices.Sorted(maps.Keys(seen)) {
		if seen[line] == attempts {
			t.Error(line)
		}
	}
}

// start starts a control plane with a kubelet.
func start(t *testing.T) *observer {
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		Logger: logr.Discard(), Controllers: controllers.Options{Without: []string{"pods", "node-lifecycle-controller"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := rest.CopyConfig(plane.Config())
	config.QPS = -1
	o := &observer{}
	if o.clients, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	runKubelet(t, o.clients, o)
	awaitNode(t, o.clients)
	return o
}

// playAll returns the histories of the pods of cases.
func (o *observer) playAll(t *testing.T, cases []kubelettest.Case) map[string]*kubelettest.History {
	histories := map[string]*kubelettest.History{}
	o.mu.Lock()
	o.histories, o.pods = histories, map[string]*corev1.Pod{}
	o.mu.Unlock()
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for i := range cases {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := o.play(t.Context(), &cases[i]); err != nil {
				t.Errorf("%s: %v", cases[i].Name, err)
			}
		})
	}
	all.Wait()
	at := int64(0)
	err := o.clients.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &at}, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
	}
	return histories
}

// namespace is the namespace of the pods.
const namespace = "default"

// runKubelet starts a kubelet. It cannot be stopped: it runs until the end of the process.
func runKubelet(t *testing.T, clients *kubernetes.Clientset, events record.EventRecorderLogger) {
	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: kubelettest.Node, MaxPods: 1000})
	t.Cleanup(func() { _ = os.RemoveAll(flags.RootDirectory) }) // the kubelet may still write
	config.EnableServer, config.MakeIPTablesUtilChains, config.LocalStorageCapacityIsolation = false, false, false
	config.EvictionHard, config.ResolverConfig, config.RegistryPullQPS = nil, "", 0
	config.ClusterDNS, config.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	config.ImageGCHighThresholdPercent = 100 // no garbage collection of images
	config.SyncFrequency.Duration = time.Minute
	hollow := kubemark.NewHollowKubelet(flags, config, clients, clients, &cadvisortest.Fake{NodeName: kubelettest.Node}, newImages(), newContainerRuntime(),
		cm.NewStubContainerManager())
	hollow.KubeletDeps.ProbeManager = nil // the kubelet's own
	hollow.KubeletDeps.Recorder = events
	server := &options.KubeletServer{KubeletFlags: *hollow.KubeletFlags, KubeletConfiguration: *hollow.KubeletConfiguration}
	if err := kubeletapp.RunKubelet(context.Background(), server, hollow.KubeletDeps); err != nil {
		t.Fatal(err)
	}
}

// awaitNode waits until the node is ready.
func awaitNode(t *testing.T, clients *kubernetes.Clientset) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ticker := time.NewTicker(100 * time.Millisecond); ; {
		node, err := clients.CoreV1().Nodes().Get(ctx, kubelettest.Node, metav1.GetOptions{})
		if err == nil {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					return
				}
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("the node is not ready: %v, %+v", err, node.Status.Conditions)
		}
	}
}

// observer observes pods. It is the recorder of the kubelet's events.
type observer struct {
	clients *kubernetes.Clientset

	mu        sync.Mutex
	histories map[string]*kubelettest.History
	pods      map[string]*corev1.Pod
}

// play creates the pod of a case, does the acts, and observes it.
func (o *observer) play(ctx context.Context, c *kubelettest.Case) error {
	pods := o.clients.CoreV1().Pods(namespace)
	watcher, err := pods.Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: c.Name}))
	if err != nil {
		return err
	}
	defer watcher.Stop()
	history := &kubelettest.History{}
	o.mu.Lock()
	o.histories[c.Name] = history
	o.mu.Unlock()
	start := time.Now()
	if _, err := pods.Create(ctx, c.Pod(namespace), metav1.CreateOptions{}); err != nil {
		return err
	}
	end := time.NewTimer(c.Lasts.Duration)
	acts := c.Then
	for {
		var next <-chan time.Time
		if len(acts) > 0 {
			next = time.After(time.Until(start.Add(acts[0].At.Duration)))
		}
		select {
		case e, ok := <-watcher.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ends")
			}
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				return apierrors.FromObject(e.Object)
			}
			o.mu.Lock()
			o.pods[c.Name] = pod
			history.Observe(pod)
			if e.Type == watch.Deleted {
				history.Deleted()
			}
			o.mu.Unlock()
		case <-next:
			if err := act(ctx, o.clients, c.Name, acts[0]); err != nil {
				return err
			}
			acts = acts[1:]
		case <-end.C:
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.pods, c.Name) // no events from now on
			return nil
		}
	}
}

// act does what a client does with a pod.
func act(ctx context.Context, clients *kubernetes.Clientset, name string, a kubelettest.Act) error {
	pods := clients.CoreV1().Pods(namespace)
	if a.Delete != nil {
		return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: a.Delete})
	}
	if a.Touch {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"touched":"at-%s"}}}`, a.At.Duration)
		_, err := pods.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, *a.Ephemeral)
	_, err = pods.UpdateEphemeralContainers(ctx, name, pod, metav1.UpdateOptions{})
	return err
}

// Event implements [record.EventRecorderLogger].
func (o *observer) Event(object runtime.Object, typ, reason, message string) {
	var name, path string
	switch object := object.(type) {
	case *corev1.Pod:
		name = object.Name
	case *corev1.ObjectReference:
		if object.Kind != "Pod" {
			return
		}
		name, path = object.Name, object.FieldPath
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if pod := o.pods[name]; pod != nil {
		o.histories[name].Event(pod, path, typ, reason, message)
	}
}

// Eventf implements [record.EventRecorderLogger].
func (o *observer) Eventf(object runtime.Object, typ, reason, format string, args ...any) {
	o.Event(object, typ, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements [record.EventRecorderLogger].
func (o *observer) AnnotatedEventf(object runtime.Object, _ map[string]string, typ, reason, format string, args ...any) {
	o.Eventf(object, typ, reason, format, args...)
}

// WithLogger implements [record.EventRecorderLogger].
func (o *observer) WithLogger(klog.Logger) record.EventRecorderLogger { return o }

var _ record.EventRecorderLogger = (*observer)(nil)
