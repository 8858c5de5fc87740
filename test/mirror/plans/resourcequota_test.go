package plans

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubecontroller "k8s.io/kubernetes/pkg/controller"
	upstream "k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/resourcequota"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestResourceQuotas compares the usage of quotas while pods, Services, claims and others come, change and go. Package quota
// compares the usage of single objects that are any.
func TestResourceQuotas(t *testing.T) {
	comparison{
		name:    "resourcequota",
		worlds:  2000,
		atLeast: usedAtLeast(map[string]int{"update status of resourcequotas": 80}, 1),
		kinds: []client.Object{&corev1.ResourceQuota{}, &corev1.Pod{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}, &corev1.ConfigMap{}, &corev1.Secret{},
			&corev1.ReplicationController{}, &appsv1.Deployment{}, &resourcev1.ResourceClaim{}, &resourcev1.DeviceClass{}},
		add: withInventory(resourcequota.AddToManager),
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			quotas, err := install.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(f.ForResource), f)
			if err != nil {
				return nil, err
			}
			started := make(chan struct{})
			close(started)
			r, err := upstream.NewController(ctx, &upstream.ControllerOptions{QuotaClient: c.CoreV1(), ResourceQuotaInformer: f.Core().V1().ResourceQuotas(),
				ResyncPeriod: kubecontroller.StaticResyncPeriodFunc(0), Registry: generic.NewRegistry(quotas.Evaluators()), DiscoveryFunc: quotable,
				IgnoredResourcesFunc: quotas.IgnoredResources, InformersStarted: started, InformerFactory: filled{f},
				ReplenishmentResyncPeriod: kubecontroller.StaticResyncPeriodFunc(0), UpdateFilter: install.DefaultUpdateFilter()})
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) { r.Run(ctx, 1) }, nil
		},
		features: used,
		generate: generateQuota,
		later:    changeQuota,
	}.compare(t)
}

// used returns the resources with a usage.
func used(w *world) (names []string) {
	for _, o := range w.list(corev1.Resource("resourcequotas")) {
		for name, quantity := range o.(*corev1.ResourceQuota).Status.Used {
			if !quantity.IsZero() {
				names = append(names, "usage of "+string(name))
			}
		}
	}
	return names
}

// usedAtLeast adds each resource.
func usedAtLeast(atLeast map[string]int, percent int) map[string]int {
	for _, name := range quotaNames {
		atLeast["usage of "+string(name)] = percent
	}
	return atLeast
}

// filled is a factory of informers that need no start.
type filled struct {
	informers.SharedInformerFactory
}

func (filled) Start(<-chan struct{}) {}

// quotable returns the resources that quotas can count.
func quotable() ([]*metav1.APIResourceList, error) {
	lists := []*metav1.APIResourceList{{GroupVersion: "v1"}, {GroupVersion: "apps/v1"}, {GroupVersion: "resource.k8s.io/v1"}}
	for i, names := range [][]string{{"pods", "services", "persistentvolumeclaims", "configmaps", "secrets", "replicationcontrollers", "resourcequotas", "events"},
		{"deployments"}, {"resourceclaims"}} {
		for _, name := range names {
			lists[i].APIResources = append(lists[i].APIResources, metav1.APIResource{Name: name, Namespaced: true, Verbs: metav1.Verbs{"create", "list", "watch", "delete"}})
		}
	}
	return lists, nil
}

// quotaNames are the resources that quotas limit.
var quotaNames = []corev1.ResourceName{"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods", "count/pods",
	"requests.ephemeral-storage", "limits.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.example.com/gpu", "services", "count/services",
	"services.nodeports", "services.loadbalancers", "persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage",
	"gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "configmaps", "count/configmaps", "secrets",
	"count/secrets", "replicationcontrollers", "resourcequotas", "count/resourcequotas", "count/deployments.apps", "count/widgets.example.com", "count/events",
	"count/resourceclaims.resource.k8s.io", "fast.deviceclass.resource.k8s.io/devices"}

func newHard(s *random.Source) corev1.ResourceList {
	hard := corev1.ResourceList{}
	for range 1 + s.IntN(12) {
		hard[random.Pick(s, quotaNames...)] = resource.MustParse(random.Pick(s, "1", "10", "2Gi", "500m"))
	}
	return hard
}

func generateQuota(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	q := &corev1.ResourceQuota{ObjectMeta: object(s, ns, "x"), Spec: corev1.ResourceQuotaSpec{Hard: newHard(s)}}
	switch s.IntN(6) {
	case 0:
		q.Spec.Scopes = random.Some(s, 2, corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
			corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopePriorityClass)
	case 1, 2:
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: newScopes(s)}
	}
	if s.Chance(60) { // computed earlier
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: corev1.ResourceList{}}
		for name := range q.Spec.Hard {
			if s.Chance(80) {
				q.Status.Used[name] = resource.MustParse(random.Pick(s, "0", "1", "1", "2", "100m"))
			}
		}
		if s.Chance(20) {
			q.Status.Hard["pods"], q.Status.Used["pods"] = resource.MustParse("7"), resource.MustParse("3")
		}
		if s.Chance(10) {
			q.Status.Used = nil
		}
	}
	objects := []client.Object{q}
	for i := range s.IntN(5) {
		objects = append(objects, newCountedPod(s, ns, fmt.Sprint("p", i)))
	}
	for i := range s.IntN(3) {
		objects = append(objects, newCountedService(s, ns, fmt.Sprint("s", i)), newCountedClaim(s, ns, fmt.Sprint("c", i)))
	}
	for i := range s.IntN(5) {
		meta := object(s, ns, fmt.Sprint("o", i))
		objects = append(objects, random.Pick[client.Object](s, &corev1.ConfigMap{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta},
			&corev1.ReplicationController{ObjectMeta: meta}, &corev1.ResourceQuota{ObjectMeta: meta}, newDeviceClaim(s, meta)))
	}
	if s.Chance(30) { // another namespace does not count
		objects = append(objects, newCountedPod(s, ns+"-other", "p"))
	}
	return objects, q, nil
}

func newScopes(s *random.Source) []corev1.ScopedResourceSelectorRequirement {
	var list []corev1.ScopedResourceSelectorRequirement
	for range 1 + s.IntN(2) {
		r := corev1.ScopedResourceSelectorRequirement{Operator: corev1.ScopeSelectorOpExists, ScopeName: random.Pick(s, corev1.ResourceQuotaScopeTerminating,
			corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass,
			corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass)}
		if r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass {
			r.Operator = random.Pick(s, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist)
		}
		if r.Operator == corev1.ScopeSelectorOpIn || r.Operator == corev1.ScopeSelectorOpNotIn {
			r.Values = random.Pick(s, []string{"high"}, []string{"high", "low"}, []string{"gold"})
		}
		list = append(list, r)
	}
	return list
}

// newAmounts returns amounts of some resources.
func newAmounts(s *random.Source) corev1.ResourceList {
	list := corev1.ResourceList{}
	for range s.IntN(4) {
		list[random.Pick(s, corev1.ResourceCPU, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
			"hugepages-2Mi", "example.com/gpu", "kubernetes.io/other")] = resource.MustParse(random.Pick(s, "0", "1", "2", "100m", "1500m", "64Mi"))
	}
	return list
}

// newCountedPod returns a pod with containers of each type, with requests of the pod, in a resize, or terminating.
func newCountedPod(s *random.Source, ns, name string) *corev1.Pod {
	pod := newPod(s, object(s, ns, name))
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: newAmounts(s), Limits: newAmounts(s)}}
	}
	pod.Spec.Containers = []corev1.Container{container("a")}
	if s.Chance(30) {
		pod.Spec.Containers = append(pod.Spec.Containers, container("b"))
	}
	pod.Spec.InitContainers = nil
	for i := range s.IntN(3) {
		c := container(fmt.Sprint("i", i))
		c.RestartPolicy = random.Pick(s, nil, ptr.To(corev1.ContainerRestartPolicyAlways), ptr.To(corev1.ContainerRestartPolicyNever))
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if s.Chance(10) {
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
	}
	if s.Chance(20) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: newAmounts(s), Limits: newAmounts(s)}
	}
	if s.Chance(20) {
		pod.Spec.Overhead = newAmounts(s)
	}
	if s.Chance(30) {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(random.Pick[int64](s, 0, 60))
	}
	pod.Spec.PriorityClassName = random.Pick(s, "", "high", "low")
	if s.Chance(20) {
		term := corev1.PodAffinityTerm{TopologyKey: "zone", Namespaces: random.Pick(s, nil, []string{"other"}), NamespaceSelector: random.Pick(s, nil, &metav1.LabelSelector{})}
		pod.Spec.Affinity = random.Pick(s, &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}},
			&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}})
	}
	if s.Chance(40) { // in a resize
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			status := corev1.ContainerStatus{Name: c.Name}
			if s.Chance(70) {
				status.AllocatedResources = newAmounts(s)
			}
			if s.Chance(70) {
				status.Resources = &corev1.ResourceRequirements{Requests: newAmounts(s), Limits: newAmounts(s)}
			}
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		}
		if s.Chance(50) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
				Reason: random.Pick(s, corev1.PodReasonInfeasible, corev1.PodReasonDeferred)})
		}
	}
	return pod
}

func newCountedService(s *random.Source, ns, name string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: object(s, ns, name), Spec: corev1.ServiceSpec{
		Type: random.Pick(s, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)}}
	for i := range s.IntN(3) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: int32(80 + i), NodePort: random.Pick[int32](s, 0, 30080)})
	}
	if s.Chance(30) {
		svc.Spec.AllocateLoadBalancerNodePorts = ptr.To(s.Chance(30))
	}
	return svc
}

func newCountedClaim(s *random.Source, ns, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: object(s, ns, name)}
	c.Spec.StorageClassName = random.Pick(s, nil, ptr.To("gold"), ptr.To("tin"))
	if s.Chance(15) {
		c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: random.Pick(s, "gold", "tin")}
	}
	if s.Chance(90) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(random.Pick(s, "1Gi", "5Gi"))}
	}
	if s.Chance(40) { // expanded, or shrunk again
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(random.Pick(s, "1Gi", "8Gi"))}
	}
	c.Spec.VolumeAttributesClassName = random.Pick(s, nil, ptr.To(""), ptr.To("gold"))
	c.Status.CurrentVolumeAttributesClassName = random.Pick(s, nil, ptr.To("gold"), ptr.To("tin"))
	if s.Chance(20) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: random.Pick(s, "gold", "high")}
	}
	return c
}

func newDeviceClaim(s *random.Source, meta metav1.ObjectMeta) *resourcev1.ResourceClaim {
	class := func() string { return random.Pick(s, "fast", "fast", "slow") }
	r := resourcev1.DeviceRequest{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class(), Count: int64(1 + s.IntN(3)),
		AllocationMode: random.Pick(s, resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll)}}
	if s.Chance(30) {
		r = resourcev1.DeviceRequest{Name: "r"}
		for i := range 1 + s.IntN(2) {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprint("r", i), DeviceClassName: class(), Count: int64(1 + s.IntN(3)),
				AllocationMode: resourcev1.DeviceAllocationModeExactCount})
		}
	}
	return &resourcev1.ResourceClaim{ObjectMeta: meta, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{r}}}}
}

// changeQuota returns changes of the limits and of what they count.
func changeQuota(s *random.Source, quota client.Object) (changes []change) {
	ns := quota.GetNamespace()
	for range s.IntN(4) {
		var put client.Object
		var gone []key
		name := random.Pick(s, "p0", "p1", "s0", "c0")
		switch s.IntN(5) {
		case 0:
			q := quota.DeepCopyObject().(*corev1.ResourceQuota)
			q.Spec.Hard = newHard(s)
			put = q
		case 1:
			put = newCountedPod(s, ns, name)
		case 2:
			put = newCountedService(s, ns, name)
		case 3:
			put = newCountedClaim(s, ns, name)
		case 4:
			for _, o := range []client.Object{&corev1.Pod{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}} {
				o.SetNamespace(ns)
				o.SetName(name)
				gone = append(gone, keyOf(o))
			}
		}
		changes = append(changes, change{after: random.Pick(s, time.Second, 20*time.Second, time.Minute), make: func(w *world) {
			for _, k := range gone {
				delete(w.objects, k)
			}
			if q, ok := put.(*corev1.ResourceQuota); ok {
				old := w.objects[keyOf(q)].(*corev1.ResourceQuota)
				q = q.DeepCopy()
				q.Status, q.ResourceVersion = old.Status, old.ResourceVersion
				w.objects[keyOf(q)] = q
			} else if put != nil {
				w.objects[keyOf(put)] = put.DeepCopyObject().(client.Object)
			}
		}})
	}
	return changes
}
