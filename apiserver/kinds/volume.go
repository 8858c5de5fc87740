package kinds

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes checks a pod's volumes.
func volumes(s *corev1.PodSpec, w *where) field.ErrorList {
	if len(s.Volumes) == 0 {
		return nil
	}
	var errs field.ErrorList
	list := w.at("volumes")
	for i := range s.Volumes {
		v, at := &s.Volumes[i], list.item(i)
		errs = append(errs, dnsLabel(v.Name, &at, "name")...)
		for j := range s.Volumes[:i] {
			if v.Name != "" && s.Volumes[j].Name == v.Name {
				errs = append(errs, field.Duplicate(at.of("name"), v.Name))
				break
			}
		}
		errs = append(errs, volumeSource(&v.VolumeSource, &at)...)
	}
	return errs
}

// sources counts the sources of a volume, which must have exactly one, and checks the first.
type sources struct {
	w    *where
	n    int
	errs field.ErrorList
}

func (s *sources) one(name string, set bool, check func(at *where) field.ErrorList) {
	if !set {
		return
	}
	at := s.w.at(name)
	if s.n++; s.n > 1 {
		s.errs = append(s.errs, field.Forbidden(at.path(), "may not specify more than 1 volume type"))
		return
	}
	if check != nil {
		s.errs = append(s.errs, check(&at)...)
	}
}

func volumeSource(v *corev1.VolumeSource, w *where) field.ErrorList {
	s := sources{w: w}
	s.one("emptyDir", v.EmptyDir != nil, func(at *where) field.ErrorList { return emptyDir(v.EmptyDir, at) })
	s.one("hostPath", v.HostPath != nil, func(at *where) field.ErrorList { return hostPath(v.HostPath, at) })
	s.one("secret", v.Secret != nil, func(at *where) field.ErrorList {
		errs := required(v.Secret.SecretName, at, "secretName")
		return append(errs, files(v.Secret.Items, v.Secret.DefaultMode, at)...)
	})
	s.one("configMap", v.ConfigMap != nil, func(at *where) field.ErrorList {
		errs := required(v.ConfigMap.Name, at, "name")
		return append(errs, files(v.ConfigMap.Items, v.ConfigMap.DefaultMode, at)...)
	})
	s.one("downwardAPI", v.DownwardAPI != nil, func(at *where) field.ErrorList {
		return append(mode(v.DownwardAPI.DefaultMode, at, "defaultMode"), downward(v.DownwardAPI.Items, at)...)
	})
	s.one("projected", v.Projected != nil, func(at *where) field.ErrorList { return projected(v.Projected, at) })
	s.one("persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(at *where) field.ErrorList {
		return required(v.PersistentVolumeClaim.ClaimName, at, "claimName")
	})
	s.one("ephemeral", v.Ephemeral != nil, func(at *where) field.ErrorList {
		if v.Ephemeral.VolumeClaimTemplate == nil {
			return field.ErrorList{field.Required(at.of("volumeClaimTemplate"), "")}
		}
		template := at.at("volumeClaimTemplate")
		spec := template.at("spec")
		return claimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec, &spec)
	})
	s.one("csi", v.CSI != nil, func(at *where) field.ErrorList { return driver(v.CSI.Driver, at) })
	s.one("image", v.Image != nil, func(at *where) field.ErrorList {
		return required(v.Image.Reference, at, "reference")
	})
	remoteSource(v, &s)
	if s.n == 0 {
		s.errs = append(s.errs, field.Required(w.path(), "must specify a volume type"))
	}
	return s.errs
}

// remoteSource checks volumes that come from other systems.
func remoteSource(v *corev1.VolumeSource, s *sources) {
	s.one("nfs", v.NFS != nil, func(at *where) field.ErrorList { return nfs(v.NFS, at) })
	s.one("gcePersistentDisk", v.GCEPersistentDisk != nil, func(at *where) field.ErrorList { return required(v.GCEPersistentDisk.PDName, at, "pdName") })
	s.one("awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(at *where) field.ErrorList {
		return required(v.AWSElasticBlockStore.VolumeID, at, "volumeID")
	})
	s.one("gitRepo", v.GitRepo != nil, func(at *where) field.ErrorList { return required(v.GitRepo.Repository, at, "repository") })
	s.one("iscsi", v.ISCSI != nil, func(at *where) field.ErrorList {
		return append(required(v.ISCSI.TargetPortal, at, "targetPortal"), required(v.ISCSI.IQN, at, "iqn")...)
	})
	s.one("glusterfs", v.Glusterfs != nil, func(at *where) field.ErrorList {
		return append(required(v.Glusterfs.EndpointsName, at, "endpoints"), required(v.Glusterfs.Path, at, "path")...)
	})
	s.one("rbd", v.RBD != nil, func(at *where) field.ErrorList {
		if len(v.RBD.CephMonitors) == 0 {
			return field.ErrorList{field.Required(at.of("monitors"), "")}
		}
		return required(v.RBD.RBDImage, at, "image")
	})
	s.one("flexVolume", v.FlexVolume != nil, func(at *where) field.ErrorList { return required(v.FlexVolume.Driver, at, "driver") })
	s.one("cinder", v.Cinder != nil, func(at *where) field.ErrorList { return required(v.Cinder.VolumeID, at, "volumeID") })
	s.one("cephfs", v.CephFS != nil, func(at *where) field.ErrorList {
		if len(v.CephFS.Monitors) == 0 {
			return field.ErrorList{field.Required(at.of("monitors"), "")}
		}
		return nil
	})
	s.one("azureFile", v.AzureFile != nil, func(at *where) field.ErrorList {
		return append(required(v.AzureFile.SecretName, at, "secretName"), required(v.AzureFile.ShareName, at, "shareName")...)
	})
	s.one("azureDisk", v.AzureDisk != nil, func(at *where) field.ErrorList {
		return append(required(v.AzureDisk.DiskName, at, "diskName"), required(v.AzureDisk.DataDiskURI, at, "diskURI")...)
	})
	s.one("vsphereVolume", v.VsphereVolume != nil, func(at *where) field.ErrorList { return required(v.VsphereVolume.VolumePath, at, "volumePath") })
	s.one("portworxVolume", v.PortworxVolume != nil, func(at *where) field.ErrorList { return required(v.PortworxVolume.VolumeID, at, "volumeID") })
	s.one("photonPersistentDisk", v.PhotonPersistentDisk != nil, func(at *where) field.ErrorList { return required(v.PhotonPersistentDisk.PdID, at, "pdID") })
	s.one("fc", v.FC != nil, nil)
	s.one("flocker", v.Flocker != nil, nil)
	s.one("quobyte", v.Quobyte != nil, nil)
	s.one("scaleIO", v.ScaleIO != nil, nil)
	s.one("storageos", v.StorageOS != nil, nil)
}

func emptyDir(v *corev1.EmptyDirVolumeSource, w *where) field.ErrorList {
	if v.SizeLimit != nil && v.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(w.of("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

func hostPath(v *corev1.HostPathVolumeSource, w *where) field.ErrorList {
	if v.Path == "" {
		return field.ErrorList{field.Required(w.of("path"), "")}
	}
	errs := noBacksteps(v.Path, w, "path")
	return append(errs, oneOfIf(v.Type, w, "type", corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)...)
}

func nfs(v *corev1.NFSVolumeSource, w *where) field.ErrorList {
	errs := required(v.Server, w, "server")
	errs = append(errs, required(v.Path, w, "path")...)
	if v.Path != "" && !path.IsAbs(v.Path) {
		errs = append(errs, field.Invalid(w.of("path"), v.Path, "must be an absolute path"))
	}
	return errs
}

// driver checks the name of a storage driver.
func driver(name string, w *where) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(w.of("driver"), "")}
	}
	if len(name) > 63 {
		return field.ErrorList{field.TooLong(w.of("driver"), name, 63)}
	}
	return invalid(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, w, "driver")
}

// files checks the files that are made from an object's keys.
func files(items []corev1.KeyToPath, defaultMode *int32, w *where) field.ErrorList {
	errs := mode(defaultMode, w, "defaultMode")
	list := w.at("items")
	for i := range items {
		at := list.item(i)
		errs = append(errs, required(items[i].Key, &at, "key")...)
		errs = append(errs, fileName(items[i].Path, &at)...)
		errs = append(errs, mode(items[i].Mode, &at, "mode")...)
	}
	return errs
}

func fileName(p string, w *where) field.ErrorList {
	if p == "" {
		return field.ErrorList{field.Required(w.of("path"), "")}
	}
	errs := localPath(p, w, "path")
	if strings.HasPrefix(p, "..") && len(p) > 2 && p[2] != '/' {
		errs = append(errs, field.Invalid(w.of("path"), p, "must not start with '..'"))
	}
	return errs
}

func mode(m *int32, w *where, name string) field.ErrorList {
	if m == nil || *m >= 0 && *m <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(w.of(name), *m, "must be a number between 0 and 0777 (octal), both inclusive")}
}

func downward(items []corev1.DownwardAPIVolumeFile, w *where) field.ErrorList {
	var errs field.ErrorList
	list := w.at("items")
	for i := range items {
		f, at := &items[i], list.item(i)
		errs = append(errs, fileName(f.Path, &at)...)
		errs = append(errs, mode(f.Mode, &at, "mode")...)
		switch {
		case f.FieldRef != nil:
			ref := at.at("fieldRef")
			errs = append(errs, fieldRef(f.FieldRef, &ref, volumeFields)...)
			if f.ResourceFieldRef != nil {
				errs = append(errs, field.Invalid(at.path(), "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case f.ResourceFieldRef != nil:
			ref := at.at("resourceFieldRef")
			errs = append(errs, resourceFieldRef(f.ResourceFieldRef, &ref, true)...)
		default:
			errs = append(errs, field.Required(at.path(), "one of fieldRef and resourceFieldRef is required"))
		}
	}
	return errs
}

func projected(v *corev1.ProjectedVolumeSource, w *where) field.ErrorList {
	errs := mode(v.DefaultMode, w, "defaultMode")
	list := w.at("sources")
	for i := range v.Sources {
		p, at := &v.Sources[i], list.item(i)
		s := sources{w: &at}
		s.one("secret", p.Secret != nil, func(at *where) field.ErrorList {
			return append(required(p.Secret.Name, at, "name"), files(p.Secret.Items, nil, at)...)
		})
		s.one("configMap", p.ConfigMap != nil, func(at *where) field.ErrorList {
			return append(required(p.ConfigMap.Name, at, "name"), files(p.ConfigMap.Items, nil, at)...)
		})
		s.one("downwardAPI", p.DownwardAPI != nil, func(at *where) field.ErrorList { return downward(p.DownwardAPI.Items, at) })
		s.one("serviceAccountToken", p.ServiceAccountToken != nil, func(at *where) field.ErrorList { return projectedToken(p.ServiceAccountToken, at) })
		s.one("clusterTrustBundle", p.ClusterTrustBundle != nil, func(at *where) field.ErrorList { return fileName(p.ClusterTrustBundle.Path, at) })
		s.one("podCertificate", p.PodCertificate != nil, func(at *where) field.ErrorList { return required(p.PodCertificate.SignerName, at, "signerName") })
		if s.n == 0 {
			s.errs = append(s.errs, field.Required(at.path(), "must specify a volume type"))
		}
		errs = append(errs, s.errs...)
	}
	return errs
}

func projectedToken(t *corev1.ServiceAccountTokenProjection, w *where) field.ErrorList {
	var errs field.ErrorList
	if t.ExpirationSeconds != nil && *t.ExpirationSeconds < 600 {
		errs = append(errs, field.Invalid(w.of("expirationSeconds"), *t.ExpirationSeconds, "may not specify a duration less than 10 minutes"))
	}
	if t.ExpirationSeconds != nil && *t.ExpirationSeconds > 1<<32 {
		errs = append(errs, field.Invalid(w.of("expirationSeconds"), *t.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds"))
	}
	return append(errs, fileName(t.Path, w)...)
}
