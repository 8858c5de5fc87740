package inputs

import (
	"fmt"
	"io/fs"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/pods/memfs"
)

// RootCA is the name of the ConfigMap that the control plane publishes in each namespace. Every pod has a volume of it. No
// pod waits for it: its files are missing until it is published.
const RootCA = "kube-root-ca.crt"

// IsProjected reports whether the files of a volume come from the API.
func IsProjected(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// HasToken reports whether a volume has a token, and returns the shortest time in seconds for which one is valid.
func HasToken(v *corev1.Volume) (seconds int64, ok bool) {
	if v.Projected == nil {
		return 0, false
	}
	for _, s := range v.Projected.Sources {
		if t := s.ServiceAccountToken; t != nil {
			if lasts := ptr.Deref(t.ExpirationSeconds, 3600); !ok || lasts < seconds {
				seconds = lasts
			}
			ok = true
		}
	}
	return seconds, ok
}

// Files returns the files of a volume for which [IsProjected] reports true, by their paths.
func Files(pod *corev1.Pod, v *corev1.Volume, r Reader) (map[string]memfs.Content, error) {
	files := map[string]memfs.Content{}
	var err error
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		err = addConfigMap(files, s.Name, s.Items, s.DefaultMode, s.Optional, r)
	case v.Secret != nil:
		s := v.Secret
		err = addSecret(files, s.SecretName, s.Items, s.DefaultMode, s.Optional, r)
	case v.DownwardAPI != nil:
		err = addDownwardAPI(files, pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode, r)
	case v.Projected != nil:
		err = addProjected(files, pod, v.Projected, r)
	}
	return files, err
}

// addProjected adds the files of a projected volume.
//
//upstream:pkg/volume/projected.projectedVolumeMounter.collectData
func addProjected(files map[string]memfs.Content, pod *corev1.Pod, p *corev1.ProjectedVolumeSource, r Reader) error {
	var errs []error
	for _, s := range p.Sources {
		var err error
		switch {
		case s.Secret != nil:
			err = addSecret(files, s.Secret.Name, s.Secret.Items, p.DefaultMode, s.Secret.Optional, r)
		case s.ConfigMap != nil:
			err = addConfigMap(files, s.ConfigMap.Name, s.ConfigMap.Items, p.DefaultMode, s.ConfigMap.Optional, r)
			if s.ConfigMap.Name == RootCA && apierrors.IsNotFound(err) {
				err = nil
			}
		case s.DownwardAPI != nil:
			err = addDownwardAPI(files, pod, s.DownwardAPI.Items, p.DefaultMode, r)
		case s.ClusterTrustBundle != nil:
			var certificates []byte
			if certificates, err = TrustAnchors(s.ClusterTrustBundle, r); err == nil {
				files[s.ClusterTrustBundle.Path] = memfs.Content{Data: certificates, Mode: mode(nil, p.DefaultMode)}
			}
		case s.ServiceAccountToken != nil:
			var token []byte
			if token, err = r.Token(s.ServiceAccountToken); err == nil {
				files[s.ServiceAccountToken.Path] = memfs.Content{Data: token, Mode: mode(nil, p.DefaultMode)}
			}
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// mode returns the permissions of a file.
func mode(own, general *int32) fs.FileMode {
	if own == nil {
		own = general
	}
	return fs.FileMode(ptr.Deref(own, 0o644)).Perm()
}

// addConfigMap adds the keys of a ConfigMap.
//
//upstream:pkg/volume/configmap.MakePayload
func addConfigMap(files map[string]memfs.Content, name string, items []corev1.KeyToPath, general *int32, optional *bool, r Reader) error {
	m, err := r.ConfigMap(name)
	if err != nil {
		if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
			return nil
		}
		return err
	}
	get := func(key string) ([]byte, bool) {
		if text, ok := m.Data[key]; ok {
			return []byte(text), true
		}
		data, ok := m.BinaryData[key]
		return data, ok
	}
	keys := append(sortedKeys(m.Data), sortedKeys(m.BinaryData)...)
	return addKeys(files, keys, get, items, general, optional, "configmap references non-existent config key: %s")
}

// addSecret adds the keys of a Secret.
//
//upstream:pkg/volume/secret.MakePayload
func addSecret(files map[string]memfs.Content, name string, items []corev1.KeyToPath, general *int32, optional *bool, r Reader) error {
	s, err := r.Secret(name)
	if err != nil {
		if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
			return nil
		}
		return err
	}
	get := func(key string) ([]byte, bool) { data, ok := s.Data[key]; return data, ok }
	return addKeys(files, sortedKeys(s.Data), get, items, general, optional, "references non-existent secret key: %s")
}

// addKeys adds all keys of an object, or the items of it.
func addKeys(files map[string]memfs.Content, keys []string, get func(string) ([]byte, bool), items []corev1.KeyToPath, general *int32,
	optional *bool, missing string) error {
	if len(items) == 0 {
		for _, key := range keys {
			data, _ := get(key)
			files[key] = memfs.Content{Data: data, Mode: mode(nil, general)}
		}
		return nil
	}
	for _, item := range items {
		data, ok := get(item.Key)
		if !ok {
			if ptr.Deref(optional, false) {
				continue
			}
			return fmt.Errorf(missing, item.Key)
		}
		files[item.Path] = memfs.Content{Data: data, Mode: mode(item.Mode, general)}
	}
	return nil
}

// addDownwardAPI adds fields of a pod and resources of its containers.
//
//upstream:pkg/volume/downwardapi.CollectData
func addDownwardAPI(files map[string]memfs.Content, pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, general *int32, r Reader) error {
	var errs []error
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = Field(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = containerResource(pod, item.ResourceFieldRef, r)
		}
		if err != nil {
			errs = append(errs, err)
		}
		files[path.Clean(item.Path)] = memfs.Content{Data: []byte(value), Mode: mode(item.Mode, general)}
	}
	return utilerrors.NewAggregate(errs)
}

// containerResource returns a resource of the container that a selector names.
//
//upstream:pkg/api/v1/resource.ExtractResourceValueByContainerNameAndNodeAllocatable
func containerResource(pod *corev1.Pod, s *corev1.ResourceFieldSelector, r Reader) (string, error) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == s.ContainerName {
				return Resource(s, &list[i], r.Allocatable())
			}
		}
	}
	return "", fmt.Errorf("container %s not found", s.ContainerName)
}
