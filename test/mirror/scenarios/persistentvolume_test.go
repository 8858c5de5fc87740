package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/nfs"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestPersistentVolumes compares which claims and volumes are bound to each other, released and failed, and which claims ask a
// provisioner.
func TestPersistentVolumes(t *testing.T) {
	comparison{
		name:      "persistentvolume-binder-controller",
		scenarios: 100,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			k, err := upstream.NewController(ctx, upstream.ControllerParameters{KubeClient: c, SyncPeriod: 15 * time.Second, VolumeInformer: f.Core().V1().PersistentVolumes(),
				ClaimInformer: f.Core().V1().PersistentVolumeClaims(), ClassInformer: f.Storage().V1().StorageClasses(), PodInformer: f.Core().V1().Pods(),
				NodeInformer: f.Core().V1().Nodes(), EnableDynamicProvisioning: true, VolumePlugins: plugins()})
			if err != nil {
				return nil, err
			}
			return k.Run, nil
		},
		kinds:    []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}},
		periodic: true,
		generate: generateVolumes,
		require: []string{"PersistentVolumeClaim *.status.phase Bound", "PersistentVolumeClaim *.status.phase Lost", "PersistentVolume *.status.phase Bound",
			"PersistentVolume *.status.phase Available", "PersistentVolume *.status.phase Released", "PersistentVolume *.status.phase Failed",
			"PersistentVolumeClaim *storage-provisioner", "Event *WaitForFirstConsumer", "Event *WaitForPodScheduled", "Event *ClaimMisbound", "Event *FailedBinding",
			"Event *VolumeMismatch"},
	}.compare(t)
}

// plugins are some of the plugins of kube-controller-manager.
func plugins() []volume.VolumePlugin {
	return append(hostpath.ProbeVolumePlugins(volume.VolumeConfig{}), nfs.ProbeVolumePlugins(volume.VolumeConfig{})...)
}

var (
	classNames = []string{"", "", "", "immediate", "wait", "local", "tree", "missing"}
	sizes      = []string{"1Gi", "5Gi", "10Gi"}
	modes      = [][]corev1.PersistentVolumeAccessMode{{corev1.ReadWriteOnce}, {corev1.ReadWriteOnce}, {corev1.ReadOnlyMany}, {corev1.ReadWriteOnce, corev1.ReadOnlyMany},
		{corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany}}
)

func generateVolumes(s *random.Source) []step {
	var steps []step
	classes := newClasses(s)
	for _, c := range classes {
		if s.Chance(80) {
			steps = append(steps, create(c))
		}
	}
	var volumes []*corev1.PersistentVolume
	for i := range 1 + s.IntN(4) {
		volumes = append(volumes, newVolume(s, fmt.Sprint("v", i)))
		steps = append(steps, create(volumes[i]))
	}
	var claims []*corev1.PersistentVolumeClaim
	for i := range 1 + s.IntN(3) {
		claims = append(claims, newClaim(s, fmt.Sprint("c", i)))
		steps = append(steps, create(claims[i]))
	}
	steps = shuffled(s, steps)
	for range s.IntN(8) {
		v, c, class := random.Pick(s, volumes...), random.Pick(s, claims...), random.Pick(s, classes...)
		other, ref, policy := newVolume(s, v.Name), newClaimRef(s), random.Pick(s, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
		pod := newPod(s, "p-"+c.Name, "") // Kubernetes names several in any order
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}}}
		steps = append(steps, random.Pick(s,
			remove(c), remove(c), create(c), create(newClaim(s, c.Name)),
			remove(v), create(v), create(other),
			change("no claim", v, func(v *corev1.PersistentVolume) {
				if v.Status.Phase != corev1.VolumeBound { // or any claim may be the first to get it
					v.Spec.ClaimRef = nil
				}
			}),
			change("claim "+jsonOf(ref), v, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = ref }),
			reserve(v, c), reserve(v, c),
			change("reclaim policy "+string(policy), v, func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = policy }),
			change("labels", v, func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"app": "x"} }),
			change("size 20Gi", v, func(v *corev1.PersistentVolume) {
				v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
			}),
			change("not bound by a controller", c, func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, "pv.kubernetes.io/bound-by-controller") }),
			change("not bound", c, func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, "pv.kubernetes.io/bind-completed") }),
			change("selected node", c, func(c *corev1.PersistentVolumeClaim) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/selected-node", "a")
			}),
			remove(class), create(class),
			change("default", class, func(c *storagev1.StorageClass) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, "storageclass.kubernetes.io/is-default-class", "true")
			}),
			create(pod),
		))
	}
	for i := range steps { // Kubernetes looks at everything each 15 seconds
		steps[i].wait = 40 * time.Second
	}
	return steps
}

// reserve returns the step that reserves a volume for a claim that exists. The claim may have another volume.
func reserve(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) step {
	return step{text: fmt.Sprintf("reserve %s for %s", v.Name, c.Name), do: func(ctx context.Context, kube client.Client) error {
		volume, claim := v.DeepCopy(), c.DeepCopy()
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), claim); err != nil {
			return err
		}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(v), volume); err != nil {
			return err
		}
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		return kube.Update(ctx, volume)
	}}
}

func newClasses(s *random.Source) []*storagev1.StorageClass {
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}, Provisioner: provisioner,
			VolumeBindingMode: &mode, ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete)}
		if s.Chance(10) {
			c.Annotations["storageclass.kubernetes.io/is-default-class"] = "true"
		}
		return c
	}
	return []*storagev1.StorageClass{
		class("immediate", "example.com/p", storagev1.VolumeBindingImmediate),
		class("wait", "example.com/p", storagev1.VolumeBindingWaitForFirstConsumer),
		class("local", "kubernetes.io/no-provisioner", random.Pick(s, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)),
		class("tree", "kubernetes.io/tree", storagev1.VolumeBindingImmediate),
	}
}

func newClaimRef(s *random.Source) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: metav1.NamespaceDefault, Name: random.Pick(s, "c0", "c1", "c2")}
	if s.Chance(15) {
		ref.Namespace = "other"
	}
	if s.Chance(20) {
		ref.UID = "earlier"
	}
	return ref
}

func newVolume(s *random.Source, name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(random.Pick(s, sizes...))}, AccessModes: random.Pick(s, modes...),
		StorageClassName:              random.Pick(s, classNames...),
		PersistentVolumeReclaimPolicy: random.Pick(s, corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle)}}
	v.Spec.PersistentVolumeSource = random.Pick(s,
		corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/flyball/missing"}}, // Kubernetes deletes it
		corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/missing"}},
		corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}},
		corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "h"}})
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		// Kubernetes recycles volumes of the other sources by pods.
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "h"}}
	}
	if s.Chance(15) {
		v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	}
	if s.Chance(10) {
		v.Spec.VolumeAttributesClassName = ptr.To("gold")
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "h"}}
	}
	if s.Chance(40) {
		v.Spec.ClaimRef = newClaimRef(s)
	}
	if s.Chance(40) {
		v.Labels = map[string]string{"app": random.Pick(s, "x", "y")}
	}
	if s.Chance(20) {
		v.Annotations["pv.kubernetes.io/provisioned-by"] = "example.com/p"
	}
	if s.Chance(15) {
		v.Annotations["pv.kubernetes.io/bound-by-controller"] = "yes"
	}
	if s.Chance(10) {
		v.Finalizers = []string{"example.com/f"}
	}
	v.Status.Phase = random.Pick(s, corev1.VolumePending, corev1.VolumePending, corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeFailed)
	return v
}

func newClaim(s *random.Source, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: random.Pick(s, modes...), Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(random.Pick(s, sizes...))}}}}
	if s.Chance(85) {
		c.Spec.StorageClassName = ptr.To(random.Pick(s, classNames...))
	}
	if s.Chance(20) {
		c.Spec.VolumeName = random.Pick(s, "v0", "v1", "v2", "v9")
	}
	if s.Chance(10) {
		c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	}
	if s.Chance(10) {
		c.Spec.VolumeAttributesClassName = ptr.To("gold")
	}
	if s.Chance(15) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	}
	if s.Chance(10) {
		c.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	}
	if s.Chance(10) {
		c.Finalizers = []string{"example.com/f"}
	}
	c.Status.Phase = random.Pick(s, corev1.ClaimPending, corev1.ClaimPending, corev1.ClaimPending, corev1.ClaimBound, corev1.ClaimLost)
	return c
}
