package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/inputs"
	"flyball.dev/ctrl/client"
)

// createContainerConfigError is the reason of a container with an environment variable from a missing source.
//
//upstream:pkg/kubelet/kuberuntime.ErrCreateContainerConfig
const createContainerConfigError = "CreateContainerConfigError"

// The kinds of dependencies, as in the messages of kubelet.
const (
	configMapKind   = "configmap"
	secretKind      = "secret"
	trustBundleKind = "clustertrustbundle"
)

// dependency is a reference of a pod to a ConfigMap or a Secret.
type dependency struct {
	kind, name string
	optional   bool
	keys       []string // keys that must exist
	// missingKey is the format of the error for a key that does not exist.
	missingKey string
}

// volumeReferences returns the references of a volume.
//
//upstream:pkg/volume/configmap.MakePayload
//upstream:pkg/volume/secret.MakePayload
func volumeReferences(v *corev1.Volume) []dependency {
	keys := func(items []corev1.KeyToPath) (keys []string) {
		for _, item := range items {
			keys = append(keys, item.Key)
		}
		return keys
	}
	configMap := func(name string, optional *bool, items []corev1.KeyToPath) dependency {
		return dependency{configMapKind, name, ptr.Deref(optional, false), keys(items), "references non-existent config key: %s"}
	}
	secret := func(name string, optional *bool, items []corev1.KeyToPath) dependency {
		return dependency{secretKind, name, ptr.Deref(optional, false), keys(items), "references non-existent secret key: %s"}
	}
	var all []dependency
	switch {
	case v.ConfigMap != nil:
		all = append(all, configMap(v.ConfigMap.Name, v.ConfigMap.Optional, v.ConfigMap.Items))
	case v.Secret != nil:
		all = append(all, secret(v.Secret.SecretName, v.Secret.Optional, v.Secret.Items))
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			switch {
			case s.ConfigMap != nil && s.ConfigMap.Name != inputs.RootCA:
				all = append(all, configMap(s.ConfigMap.Name, s.ConfigMap.Optional, s.ConfigMap.Items))
			case s.Secret != nil:
				all = append(all, secret(s.Secret.Name, s.Secret.Optional, s.Secret.Items))
			}
		}
	}
	return all
}

// environmentReferences returns the references of the environment of a container, in the order in
// which kubelet resolves them.
//
//upstream:pkg/kubelet.Kubelet.makeEnvironmentVariables
func environmentReferences(namespace string, c *corev1.Container) []dependency {
	var all []dependency
	for _, from := range c.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			all = append(all, dependency{kind: configMapKind, name: from.ConfigMapRef.Name, optional: ptr.Deref(from.ConfigMapRef.Optional, false)})
		case from.SecretRef != nil:
			all = append(all, dependency{kind: secretKind, name: from.SecretRef.Name, optional: ptr.Deref(from.SecretRef.Optional, false)})
		}
	}
	for _, v := range c.Env {
		if v.Value != "" || v.ValueFrom == nil {
			continue
		}
		if s := v.ValueFrom.ConfigMapKeyRef; s != nil {
			all = append(all, dependency{configMapKind, s.Name, ptr.Deref(s.Optional, false), []string{s.Key},
				"couldn't find key %s in ConfigMap " + namespace + "/" + s.Name})
		}
		if s := v.ValueFrom.SecretKeyRef; s != nil {
			all = append(all, dependency{secretKind, s.Name, ptr.Deref(s.Optional, false), []string{s.Key},
				"couldn't find key %s in Secret " + namespace + "/" + s.Name})
		}
	}
	return all
}

// mountedVolumes returns the volumes of a pod that a container mounts; kubelet ignores the others.
func mountedVolumes(spec *corev1.PodSpec) (volumes []*corev1.Volume) {
	mounts := map[string]bool{}
	for c := range podstate.Containers(spec) {
		for _, m := range c.VolumeMounts {
			mounts[m.Name] = true
		}
	}
	for i := range spec.Volumes {
		if mounts[spec.Volumes[i].Name] {
			volumes = append(volumes, &spec.Volumes[i])
		}
	}
	return volumes
}

// unresolved are the errors for references to missing objects.
type unresolved struct {
	mounts []string          // the errors in mounting volumes, in the words of kubelet
	polls  bool              // nothing delivers the missing object
	config map[string]string // by container, the error in its configuration
}

// resolve resolves the references of the volumes of a pod, unless the volumes are mounted, and the references of the
// containers that do not run. The pod waits for missing objects.
func (r *reconciler) resolve(ctx context.Context, pod *corev1.Pod, mounted bool) (u unresolved, err error) {
	var volumes []*corev1.Volume
	if !mounted {
		volumes = mountedVolumes(&pod.Spec)
	}
	lookups := &lookups{ctx: ctx, reader: r.live, namespace: pod.Namespace}
	key := client.ObjectKeyFromObject(pod)
	for _, v := range volumes {
		var errs []error
		for _, ref := range volumeReferences(v) {
			if !ref.optional {
				r.dependents.add(key, ref)
			}
			if why, err := lookups.check(&ref); err != nil {
				return u, err
			} else if why != nil {
				errs = append(errs, why)
			}
		}
		if why := r.trustBundles(ctx, pod, v); len(why) > 0 {
			r.dependents.add(key, dependency{kind: trustBundleKind})
			errs = append(errs, why...)
			u.polls = true
		}
		if len(errs) > 0 {
			u.mounts = append(u.mounts, fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", v.Name, utilerrors.NewAggregate(errs)))
		}
	}
	for c := range podstate.Containers(&pod.Spec) {
		if runs(&pod.Status, c.Name) {
			continue
		}
		for _, ref := range environmentReferences(pod.Namespace, c) {
			if !ref.optional {
				r.dependents.add(key, ref)
			}
			why, err := lookups.check(&ref)
			if err != nil {
				return u, err
			}
			if why != nil {
				if u.config == nil {
					u.config = map[string]string{}
				}
				u.config[c.Name] = why.Error()
				break
			}
		}
	}
	if len(u.mounts) == 0 && len(u.config) == 0 {
		r.dependents.remove(key)
	}
	return u, nil
}

// trustBundles returns the errors of the ClusterTrustBundles of a volume.
func (r *reconciler) trustBundles(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (errs []error) {
	if !inputs.HasTrustBundles(v) {
		return nil
	}
	reader := r.reader(ctx, pod)
	for _, s := range v.Projected.Sources {
		if s.ClusterTrustBundle != nil {
			if _, err := inputs.TrustAnchors(s.ClusterTrustBundle, reader); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// runs reports whether a container runs or has terminated.
func runs(s *corev1.PodStatus, container string) bool {
	for _, list := range [...][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		if state := find(list, container).State; state.Running != nil || state.Terminated != nil {
			return true
		}
	}
	return false
}

// lookups reads ConfigMaps and Secrets of a namespace from the server, each once. Only their metadata
// is in the cache, since they can be many and large.
type lookups struct {
	ctx       context.Context
	reader    client.Reader
	namespace string
	found     map[objectName]content
}

// objectName is the name of a ConfigMap or Secret, with its kind.
type objectName struct{ kind, name string }

// content is the content of a ConfigMap or Secret.
type content struct {
	missing error // if there is none
	has     func(key string) bool
}

// check returns why a reference cannot be resolved, or nil.
func (l *lookups) check(ref *dependency) (why, err error) {
	if ref.optional {
		return nil, nil
	}
	name := objectName{ref.kind, ref.name}
	found, ok := l.found[name]
	if !ok {
		if found, err = l.read(name); err != nil {
			return nil, err
		}
		if l.found == nil {
			l.found = map[objectName]content{}
		}
		l.found[name] = found
	}
	if found.missing != nil {
		return found.missing, nil
	}
	for _, key := range ref.keys {
		if !found.has(key) {
			return fmt.Errorf(ref.missingKey, key), nil
		}
	}
	return nil, nil
}

// read reads a ConfigMap or Secret.
func (l *lookups) read(name objectName) (c content, err error) {
	key := client.ObjectKey{Namespace: l.namespace, Name: name.name}
	if name.kind == secretKind {
		s := &corev1.Secret{}
		err = l.reader.Get(l.ctx, key, s)
		c.has = func(key string) bool { _, ok := s.Data[key]; return ok }
	} else {
		m := &corev1.ConfigMap{}
		err = l.reader.Get(l.ctx, key, m)
		c.has = func(key string) bool {
			_, text := m.Data[key]
			_, binary := m.BinaryData[key]
			return text || binary
		}
	}
	if apierrors.IsNotFound(err) {
		c.missing, err = apierrors.NewNotFound(corev1.Resource(name.kind), name.name), nil
	}
	return c, err
}

// wasMounted reports whether the volumes of a pod have been mounted before.
func wasMounted(pod *corev1.Pod) bool {
	c := podstate.Condition(pod, corev1.PodReadyToStartContainers)
	return pod.Status.Phase != corev1.PodPending || c != nil && c.Status == corev1.ConditionTrue
}
