package scheduling

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// theirs is kube-scheduler. Its informers do not run: a test fills their stores.
type theirs struct {
	scheduler *scheduler.Scheduler
	profile   framework.Framework
	snapshot  *internalcache.Snapshot
	informers informers.SharedInformerFactory
	evicted   chan string // the names of pods that it marks for eviction
	nominated []*corev1.Pod
}

func newTheirs(t *testing.T) *theirs {
	client := fake.NewClientset()
	u := &theirs{informers: informers.NewSharedInformerFactory(client, 0), evicted: make(chan string, 1000)}
	u.informers.InformerFor(&policyv1.PodDisruptionBudget{}, newSortedInformer)
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.PatchAction).GetName()
		if strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), string(corev1.DisruptionTarget)) {
			u.evicted <- name
		}
		return true, nil, apierrors.NewNotFound(corev1.Resource("pods"), name) // so that nothing else happens to it
	})
	var err error
	u.scheduler, err = scheduler.New(t.Context(), client, u.informers, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} })
	if err != nil {
		t.Fatal(err)
	}
	u.profile = u.scheduler.Profiles[corev1.DefaultSchedulerName]
	u.snapshot = u.profile.SnapshotSharedLister().(*internalcache.Snapshot)
	return u
}

// sortedInformer is an informer of budgets that lists them by their names, as ours does. An informer lists them in random order, in which
// kube-scheduler takes disruptions off them: if a pod has two, it depends on the order which other pods may be evicted.
type sortedInformer struct{ cache.SharedIndexInformer }

func newSortedInformer(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	return sortedInformer{policyinformers.NewPodDisruptionBudgetInformer(c, corev1.NamespaceAll, resync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

func (i sortedInformer) GetIndexer() cache.Indexer {
	return sortedIndexer{i.SharedIndexInformer.GetIndexer()}
}

type sortedIndexer struct{ cache.Indexer }

func (i sortedIndexer) List() []any {
	keys := i.ListKeys()
	slices.Sort(keys)
	list := make([]any, len(keys))
	for n, key := range keys {
		list[n], _, _ = i.GetByKey(key)
	}
	return list
}

// set makes a world the one of kube-scheduler.
func (u *theirs) set(t *testing.T, w *world) {
	select {
	case name := <-u.evicted:
		t.Fatalf("kube-scheduler evicts %s, unlike ours", name)
	default:
	}
	*u.snapshot = *internalcache.NewSnapshot(w.bound, w.nodes)
	stores := map[string][]any{}
	for _, o := range w.objects {
		kind := kindOf(o)
		stores[kind] = append(stores[kind], o)
	}
	for _, p := range append(slices.Clone(w.nominated), w.pod) {
		stores["Pod"] = append(stores["Pod"], p)
	}
	core, storage := u.informers.Core().V1(), u.informers.Storage().V1()
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"Pod": core.Pods().Informer(), "Namespace": core.Namespaces().Informer(), "Service": core.Services().Informer(),
		"ReplicaSet": u.informers.Apps().V1().ReplicaSets().Informer(), "StatefulSet": u.informers.Apps().V1().StatefulSets().Informer(),
		"PersistentVolumeClaim": core.PersistentVolumeClaims().Informer(), "PersistentVolume": core.PersistentVolumes().Informer(),
		"StorageClass": storage.StorageClasses().Informer(), "CSINode": storage.CSINodes().Informer(), "CSIDriver": storage.CSIDrivers().Informer(),
		"CSIStorageCapacity": storage.CSIStorageCapacities().Informer(), "VolumeAttachment": storage.VolumeAttachments().Informer(),
		"PodDisruptionBudget": u.informers.Policy().V1().PodDisruptionBudgets().Informer(),
	} {
		if err := informer.GetIndexer().Replace(stores[kind], ""); err != nil {
			t.Fatal(err)
		}
		delete(stores, kind)
	}
	for kind := range stores {
		t.Fatalf("no informer of %s", kind)
	}
	u.nominate(w.nominated)
}

// nominate reserves nodes for pods, and for no others.
func (u *theirs) nominate(pods []*corev1.Pod) {
	for _, p := range u.nominated {
		u.scheduler.SchedulingQueue.Delete(u.logger(), p)
	}
	u.nominated = pods
	for _, p := range pods {
		u.scheduler.SchedulingQueue.Add(context.Background(), p)
	}
}

// explain returns how the nodes come off.
func (u *theirs) explain(ctx context.Context, pod *corev1.Pod) (e explanation) {
	e = newExplanation()
	state := framework.NewCycleState()
	_, status, _ := u.profile.RunPreFilterPlugins(ctx, state, pod)
	nodes, _ := u.snapshot.NodeInfos().List()
	var fit []fwk.NodeInfo
	for _, n := range nodes {
		s := status
		if s.IsSuccess() {
			s = u.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, n)
		}
		if s.IsSuccess() {
			fit = append(fit, n)
			continue
		}
		e.reject(n.Node().Name, s.Reasons(), s.Code() == fwk.UnschedulableAndUnresolvable)
	}
	if len(fit) == 0 {
		return e
	}
	if s := u.profile.RunPreScorePlugins(ctx, state, pod, fit); !s.IsSuccess() {
		panic(s.AsError())
	}
	scores, s := u.profile.RunScorePlugins(ctx, state, pod, fit)
	if !s.IsSuccess() {
		panic(s.AsError())
	}
	for _, n := range scores {
		for _, p := range n.Scores {
			e.score(p.Name, n.Name, p.Score)
		}
		e.totals[n.Name] = n.TotalScore
	}
	return e
}

// schedule returns the node for a pod. Or it returns the message, and the node that the pod waits for with the victims there.
func (u *theirs) schedule(t *testing.T, w *world) (d decision) {
	pod := w.pod
	ctx := t.Context()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	state := framework.NewCycleState()
	result, err := u.scheduler.SchedulePod(ctx, u.profile, state, &framework.QueuedPodInfo{PodInfo: info})
	if err == nil {
		return decision{node: result.SuggestedHost}
	}
	unfit := &framework.FitError{}
	if !errors.As(err, &unfit) {
		return decision{message: err.Error()}
	}
	post, status := u.profile.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
	unfit.Diagnosis.PostFilterMsg = status.Message()
	d.message = unfit.Error()
	if status.IsSuccess() {
		d.nominated = post.NominatedNodeName
		d.victims = u.victims(t, w, d.message)
	}
	return d
}

// victims waits for the victims that a message announces. kube-scheduler does not delete a pod that is being deleted, so the number
// of the others is known from our victims only. A victim that comes after them is reported in the next world.
func (u *theirs) victims(t *testing.T, w *world, message string) (names []string) {
	node, n := announced(message)
	if victims := w.candidates[node]; len(victims) == n {
		n = len(remaining(victims))
	}
	for len(names) < n {
		select {
		case name := <-u.evicted:
			names = append(names, name)
		case <-time.After(5 * time.Minute):
			t.Fatalf("kube-scheduler evicts %v, ours %v; %s\n%s", names, w.victims(), message, w.text())
		}
	}
	slices.Sort(names)
	return names
}
